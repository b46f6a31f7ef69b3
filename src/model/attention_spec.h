// The token mixer of a layer as a value: grouped-query or latent attention, its windows, and the linear mixers
// (Mamba-2, gated delta net) that hybrid models put in its place. Sizes only: which layer has which is model_spec.h's.
#pragma once
#include <vector>

namespace trireme::model {

enum class AttentionKind {
  grouped,  // MHA, GQA and MQA: num_kv_heads keys and values of head_dim
  latent,   // MLA: keys and values (and queries where q_lora_rank > 0) go through a low-rank bottleneck
};

// How rotary frequencies are stretched to longer contexts. Only the kind is kept: counts and costs don't depend on it.
enum class RopeScaling { none, linear, dynamic, yarn, llama3, longrope };

struct AttentionSpec {
  int num_heads = 0;
  int num_kv_heads = 0;  // grouped-query attention: divides num_heads; latent: num_heads
  int head_dim = 0;      // of queries and keys; of values too where v_head_dim is 0. Latent: qk_nope_dim + qk_rope_dim
  bool qk_norm = false;  // RMSNorm of each query and key head before the rotation (Qwen3)
  bool bias = false;     // of the q, k, v projections (and of the output projection where output_bias)
  bool output_bias = false;
  double rope_theta = 10000.0;

  AttentionKind kind = AttentionKind::grouped;
  int q_lora_rank = 0;   // low-rank queries with a norm between the two matrices; latent: 0 is a plain projection
  int kv_lora_rank = 0;  // latent: the width that keys and values are expanded from
  int qk_nope_dim = 0;   // latent: of a head, without rotation
  int qk_rope_dim = 0;   // latent: of a head, rotated; one key of it is shared by all heads
  int v_head_dim = 0;    // of a value head; 0: head_dim

  int window = 0;      // keys that a query of a windowed layer sees, itself included; 0: every layer is full
  int full_every = 0;  // with a window: layer % full_every == full_offset is full, the others windowed; 0: none is full
  int full_offset = 0;
  bool chunked = false;  // windows are fixed chunks of the sequence (Llama 4), not sliding: half the keys on average

  bool sinks = false;          // a learned logit a head that takes part in the softmax (GPT-OSS)
  bool qk_norm_joint = false;  // with qk_norm: one norm over all heads together (OLMoE)
  bool output_gate = false;  // a sigmoid gate as wide as the attention's output, projected from the input (Qwen3-Next)
  double rope_fraction = 1.0;  // of a head that is rotated (GLM-4.5: 0.5); 0: no positions
  RopeScaling rope_scaling = RopeScaling::none;

  // DeepSeek-V4: one projection gives keys and values, the output goes through a low rank in groups, and a layer sees a
  // window of recent keys plus compressed older ones.
  bool shared_kv = false;  // grouped: the value is the key
  int o_lora_rank = 0;     // of a group; 0: one plain output projection
  int o_groups = 1;
  std::vector<int> compression;  // one entry a layer: tokens behind one compressed key; 0: only the window's keys
  int index_top_k = 0;           // compressed keys that a query of a layer with an index attends to; 0: all
  int index_compression = 0;     // layers of this compression have the index
  int index_heads = 0, index_head_dim = 0;  // of the index's own scores

  int value_dim() const { return v_head_dim > 0 ? v_head_dim : head_dim; }
  bool operator==(const AttentionSpec&) const = default;
};

enum class LinearMixerKind { none, mamba2, gated_delta };

// A mixer with a state of fixed size in place of attention. Mamba-2: heads of head_dim with a state of state_dim, B and
// C shared by the heads of a group. Gated delta net: value heads of head_dim, key heads (groups) of state_dim.
struct LinearMixerSpec {
  LinearMixerKind kind = LinearMixerKind::none;
  int num_heads = 0;
  int head_dim = 0;
  int num_groups = 1;  // divides num_heads
  int state_dim = 0;
  int conv_width = 4;       // of the causal depthwise convolution
  int attention_every = 0;  // without a layer pattern: layer % attention_every == attention_offset keeps attention
  int attention_offset = 0;
  bool operator==(const LinearMixerSpec&) const = default;
};

}  // namespace trireme::model
