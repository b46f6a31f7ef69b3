// The one walk over a layer's segments (describe.h). Legend: D hidden, T tokens that a tensor-parallel rank multiplies,
// R tokens of the residual stream, E bytes of an activation.
//
// A sink says which of three things it takes (`operators`, `tensors`, `weights`) and has a `list` or a `tape` for it;
// what it does not take costs nothing.
#pragma once
#include "model/description/describe.h"
#include "model/description/tiles.h"

namespace trireme::model {

struct OperatorSink {
  static constexpr bool operators = true, tensors = false, weights = false;
  OperatorList& list;
};
struct TapeSink {
  static constexpr bool operators = false, tensors = true, weights = false;
  Tape& tape;
};
struct WeightSink {
  static constexpr bool operators = false, tensors = false, weights = true;
  WeightList& list;
};

// Groups of recomputation by their place in a layer.
enum RerunGroup {
  whole_layer,
  attention_block,
  core_attention,
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

// Calls of tiled kernels, by pass: 0 where an operator runs in a call that another one starts.
struct Calls {
  double forward = 1, input_gradient = 1, weight_gradient = 1;
};

template <class Sink>
class Walk {
 public:
  Walk(const Subject& subject, Sink sink);

  // Each is a whole reading: of a layer, or of an end.
  void layer(int layer);
  void embedding();
  void head(bool own_matrix);
  void head_streams();
  void mtp();

 private:
  static constexpr int none = Tape::none;

  // walk_operators.h: what one operator is, in all its passes.

  // A matmul with a weight of rows x columns: the weight, the matmuls of the three passes, and the operator on the tape.
  struct Linear {
    const char* name = "";
    const char* out_name = "";  // of the tensor that it makes
    int in = none;
    double tokens = 0, rows = 0, columns = 0;
    Part part = Part::projection;
    WeightRole role = WeightRole::attention;
    WeightPlace place = WeightPlace::tensor;
    int group = none;        // of recomputation
    double out_bytes = -1;   // of the tensor that it makes: tokens x rows, unless said
    double gathered = 0;     // bytes of the input collected from tensor ranks, and of its gradient before it is scattered
    double partial = 0;      // bytes of the output before it is reduced to tensor ranks
    double groups = 1;       // experts; `tokens` are those of all together
    bool quantises_input = true, quantises_gradient = true;  // by passes of their own; else the kernel before does
    Calls calls;
    // Of tiled kernels. Scratch in bytes: of the weight's gradient apart.
    double forward_scratch = 0, backward_scratch = 0, weight_scratch = 0;
    bool gradient_in_place = false;  // the output stays, and its gradient is written over it
    bool ends_call = false;          // Tape::Operator's
    int weight_input = none;         // what its input is made of again; none: `in`
  };
  int linear(const Linear& l);
  int linear_tensors(const Linear& l);
  struct Quantised {
    bool input = true, gradient = true;
  };
  void matmul(const char* what, Part part, double m, double n, double k, double groups, Quantised quantised,
              Calls calls);
  void matmul(const char* what, Part part, double m, double n, double k, Calls calls = {}) {
    matmul(what, part, m, n, k, 1, {}, calls);
  }
  // Whatever the compute format.
  void matmul_16(const char* what, Part part, double m, double n, double k, Calls calls);
  void one_matmul(const char* what, Part part, OperatorPass pass, double m, double n, double k, double groups,
                  bool narrow, double calls);
  void batched(const char* what, Part part, OperatorPass pass, double m, double n, double k, double groups);
  void attention_pass(const char* what, OperatorPass pass, double flops, double launches);
  double launches(double untiled, double calls) const { return s.kernels.tiled ? calls : untiled; }
  void memory(const char* what, Part part, OperatorPass pass, double bytes, double launches, double kernels);
  void memory(const char* what, Part part, OperatorPass pass, double bytes, double launches) {
    memory(what, part, pass, bytes, launches, launches);
  }
  // Passes over memory of activation elements: each pass reads or writes `elements`.
  void elementwise(const char* what, Part part, double elements, double forward_passes, double backward_passes,
                   double untiled_launches, Calls calls = {});
  void collective(const char* what, Part part, OperatorPass pass, CollectiveKind kind, Axis axis, double message,
                  bool beside);
  double launches_of(double groups) const;

  // A norm of `tokens` of this width, in all its kinds of description.
  struct Norm {
    const char* name = "";
    const char* out_name = "";
    int in = none;
    double tokens = 0, width = 0;
    int group = none;
    WeightRole role = WeightRole::norms;
    Calls calls;
    bool in_tile = false, gradient_in_tile = false;  // tiled kernels: its output, the gradient of that only exist there
  };
  int norm(const Norm& n);
  int norm_tensors(const Norm& n);
  void norm_operator(const char* what, double elements, Calls calls = {}) {
    elementwise(what, Part::norm, elements, 2, s.kernels.norm_backward_passes, 1, calls);
  }
  // `bytes` of the sum; `scratch`: while it runs.
  int sum(const char* name, int branch, int stream, int group, double bytes, double scratch = 0);
  int dropout(const char* name, int in, int group);
  // What stands behind a block: a norm where the model has one there, dropout, and the sum with the residual stream.
  struct Ending {
    const char* norm;
    const char* dropout;
    const char* sum;
    Calls calls;
    double scratch = 0;  // tiled kernels: of the call that ends in the sum
  };
  void residual(const Ending& e, int out, int group);
  // Of what goes into the sum: tiled kernels add it as they make it.
  double branch_bytes(double bytes) const { return s.kernels.tiled && !s.model.sandwich_norms ? 0 : bytes; }
  // Tiled kernels: rows of this width for a tile of each thread; sums of this width, one for each tile.
  double tile_rows(double tokens, double width) const;
  double tile_sums(double tokens, double width) const;
  void streams();  // what mixes several residual streams around a block

  void weight(const char* name, double rows, double columns, WeightKind kind, WeightPlace place, WeightRole role,
              bool accumulates, bool multiplies, double count = 1);
  void matrix(const char* name, double rows, double columns, WeightPlace place, WeightRole role,
              bool accumulates = true) {
    weight(name, rows, columns, WeightKind::matrix, place, role, accumulates, true);
  }
  void vector(const char* name, double rows, WeightPlace place, WeightRole role, double count = 1) {
    weight(name, rows, 1, WeightKind::vector, place, role, false, false, count);
  }
  void norm_weight(const char* name, double width, WeightRole role = WeightRole::norms) {
    vector(name, s.model.norm == NormKind::layer ? 2 * width : width, WeightPlace::whole, role);
  }

  int tensor(const char* name, double bytes) {
    if constexpr (Sink::tensors) return sink.tape.tensor(name, bytes);
    return 0;
  }
  int tensor(const char* name, double bytes, double gradient_bytes) {
    if constexpr (Sink::tensors) return sink.tape.tensor(name, bytes, gradient_bytes);
    return 0;
  }
  double bytes_of(int tensor) const {
    if constexpr (Sink::tensors) return sink.tape.tensors[tensor].bytes;
    return 0;
  }
  // `make` gives a Tape::Operator; it is not called where nobody reads tapes.
  template <class Make>
  void record(const Make& make) {
    if constexpr (Sink::tensors) sink.tape.add(make()).segment = segment;
  }
  struct Rerunning {
    Recompute part;
    RerunGroup group;
  };
  // The first part that is recomputed, all of the layer before it; none: kept.
  int group(std::initializer_list<Rerunning> parts) const {
    if constexpr (Sink::tensors) {
      if (s.recompute.has(Recompute::layer)) return whole_layer;
      for (const Rerunning& r : parts)
        if (s.recompute.has(r.part)) return r.group;
    }
    return none;
  }
  void add(Operator op) {
    if constexpr (Sink::operators) {
      op.segment = segment;
      op.early = early && op.pass != OperatorPass::forward;
      op.apart = op.kind != OperatorKind::collective &&
                 (apart || (op.part == Part::experts && op.pass == OperatorPass::weight_gradient));
      sink.list.add(op);
    }
  }

  double row(double count, double width) const { return count * width * element; }
  double full(double width) const { return row(z.tokens, width); }
  double split(double width) const { return row(z.split_tokens, width); }
  bool gathers() const { return z.tp > 1 && z.sequence_parallel; }
  double gathered(double width) const { return gathers() ? full(width) : 0; }
  double partial() const { return z.tp > 1 ? full(s.model.hidden) : 0; }

  // walk_attention.h
  void attention_block(int layer);
  struct Mixed {
    int out = none;         // what the output projection reads
    double gathered = 0;    // width of what tensor ranks gather of the block's input
  };
  Mixed grouped_attention(int normed, int layer, int outer);
  Mixed latent_attention(int normed, int layer, int outer);
  Mixed linear_mixer(int normed, int outer);
  int core(int q, int k, int v, int projection, int layer, int outer);
  void core_operators(int layer);
  int core_tensors(int q, int k, int v, int projection, int outer);
  int exchanged(int out, double bytes, int group);
  void compressed_keys(int layer);
  void tensor_in(double width);
  void tensor_out();

  // walk_feed_forward.h
  void feed_forward_block(int layer);
  struct Pair {
    const char *first, *gated, *second, *out;
  };
  struct FeedForwardShape {
    double tokens, width, ffn;  // of all groups; ffn of a rank
    double groups = 1;
    Part part = Part::mlp;
    WeightRole role = WeightRole::dense;
    WeightPlace place = WeightPlace::tensor;
    bool bias = false;
    bool adds = false;  // its output is only added to the residual stream
  };
  int pair(const Pair& names, const FeedForwardShape& f, int in, int outer, RerunGroup own, int scores);

  // walk_experts.h
  int moe(int normed, int outer);
  struct Routed {
    int rows, scores;
  };
  Routed route(int normed, double width, int outer);
  int shared_expert(int normed, int outer);
  Routed dispatch(Routed sent, double width, int outer);
  void exchange_messages(double width);
  void expert_tensor_messages(double width);

  const Subject& s;
  const Share& z;
  Sink sink;
  const double element;       // bytes of an activation
  const double wide;          // of a number computed in float32, or in the activations' format where it is wider
  const double kept_input;    // of a matmul's saved input
  const bool quantised;       // matmul inputs are quantised copies
  Segment segment = Segment::none;
  bool apart = false;  // Operator::apart of what is added from now on
  bool early = false;  // Operator::early of backward passes that are added from now on
  int stream = none;   // the residual stream, as far as the walk has come
};

template <class Sink>
Walk<Sink>::Walk(const Subject& subject, Sink where)
    : s(subject),
      z(subject.share),
      sink(where),
      element(subject.precision.activation_bytes),
      wide(std::max(4.0, element)),
      kept_input(kept_input_bytes(subject.precision)),
      quantised(kept_input < element) {
  if constexpr (Sink::tensors)
    for (const RerunGroup g : {up_projection, first_norm, second_norm, activation, shared_activation, permutation,
                               received_permutation})
      sink.tape.groups[g] = Rerun::output;
}

template <class Sink>
void Walk<Sink>::layer(int layer) {
  stream = tensor("residual stream", split(s.model.hidden));
  if (s.model.mixer(layer) != Mixer::none) attention_block(layer);
  if (s.model.feed_forward(layer) != FeedForward::none) feed_forward_block(layer);
}

}  // namespace trireme::model

#include "model/description/walk_attention.h"   // IWYU pragma: keep
#include "model/description/walk_ends.h"        // IWYU pragma: keep
#include "model/description/walk_experts.h"     // IWYU pragma: keep
#include "model/description/walk_feed_forward.h"  // IWYU pragma: keep
#include "model/description/walk_operators.h"   // IWYU pragma: keep
