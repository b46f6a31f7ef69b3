// Parts of a layer whose activations are dropped after the forward and computed again in the backward.
#pragma once
#include <cstdint>

namespace trireme::model {

enum class Recompute : std::uint32_t {
  layer = 1,              // all of a layer; its input survives
  attention = 2,          // the whole attention block
  core_attention = 4,     // scores, softmax and their product with the values
  mla_up_projection = 8,  // of queries, keys and values from their latents
  norm = 16,
  activation = 32,        // SwiGLU or GELU of experts and dense feed-forwards
  permute = 64,           // of rows to experts, messages not included
  moe = 128,              // the whole MoE block, dispatch and combine included
  mlp = 256,              // the whole dense feed-forward
};

struct RecomputeSet {
  std::uint32_t bits = 0;
  bool has(Recompute part) const { return (bits & static_cast<std::uint32_t>(part)) != 0; }
  void add(Recompute part) { bits |= static_cast<std::uint32_t>(part); }
  bool empty() const { return bits == 0; }
  bool operator==(const RecomputeSet&) const = default;
};

}  // namespace trireme::model
