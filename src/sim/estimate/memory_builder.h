// A layer's tape under construction: the operators that layers are made of, by the modules of Megatron-LM and
// Transformer Engine. Legend: t tokens, s tokens of the residual stream, h hidden, e bytes of an element.
#pragma once
#include <initializer_list>

#include "sim/estimate/memory_sizes.h"
#include "sim/estimate/memory_tape.h"

namespace trireme::sim {

class LayerBuilder {
 public:
  LayerBuilder(const Setting& setting, const model::Kernels& kernels, const MemorySizes& sizes,
               plan::RecomputeSet recompute);

  // Groups of recomputation by their place in a layer.
  enum Group {
    whole_layer,
    attention_block,
    core,
    up_projection,
    first_norm,
    second_norm,
    activation,
    shared_activation,
    permutation,
    received_permutation,
    moe_block,
    mlp_block,
  };
  struct Part {
    plan::Recompute part;
    Group group;
  };
  // The first part that is recomputed, all of the layer before it; Tape::none: kept.
  int group(std::initializer_list<Part> parts) const;

  // All give the number of the tensor that they make.

  // A matmul whose weight's gradient needs its input. `gathered`: bytes of the input collected from tensor ranks, and
  // of its gradient before it is scattered to them; `partial`: bytes of the output before it is reduced to them.
  int linear(const char* name, const char* out_name, int in, double out_bytes, int group, double gathered = 0,
             double partial = 0);
  int norm(const char* name, const char* out_name, int in, double bytes, double statistics, int group);
  int residual(const char* name, int branch, int stream, int group);
  int dropout(const char* name, int in, int group);

  // Mixers: from the normed input to what the output projection reads. `outer`: their block's group.
  int grouped_attention(int normed, int outer);
  int latent_attention(int normed, int outer);
  int linear_mixer(int normed, int outer);

  // Feed-forwards: from the normed input to the block's output.
  int dense(int normed, double width, int outer, Group own, bool shared);
  int moe(int normed, int outer);

  double full(double width) const { return z.tokens * width * z.element; }
  double split(double width) const { return z.split_tokens * width * z.element; }
  bool sequence_parallel() const { return z.tp > 1 && z.split_tokens < z.tokens; }

  Tape tape;

 private:
  static constexpr int none = Tape::none;
  double row(double count, double width) const { return count * width * z.element; }
  int core_attention(int q, int k, int v, double heads, double value_dim, int outer);
  int exchanged(int out, double bytes, int group);
  int feed_forward(int in, double tokens, double width, bool over_tensor_ranks, int outer, Group own,
                   const char* what_in, const char* what_gated, int scores);
  struct Routed {
    int rows, scores;
  };
  Routed route(int normed, double width, int outer);

  const Setting& setting;
  const model::ModelSpec& spec;
  const model::Kernels& kernels;
  const MemorySizes& z;
  plan::RecomputeSet recompute;
};

}  // namespace trireme::sim
