// Keys and values of the tokens that a part of a model has seen, so that the tokens which follow need no forward of
// those before them. An explicit state beside a segment's boundary: attention reads and extends it, nothing else does.
// Legend: N sequences (slots), C capacity in tokens, G key/value heads, h head_dim, T new tokens.
#pragma once
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/layer_range.h"
#include "nn/boundary.h"
#include "nn/model_options.h"

namespace trireme::nn {

struct KeyValueCache {
  struct Layer {
    at::Tensor keys_NCGh;    // as attention takes them: behind QK norm and rotation
    at::Tensor values_NCGh;  // both in the compute dtype
  };
  std::vector<Layer> layers;          // by layer - first_layer of the part
  std::vector<std::int64_t> lengths;  // tokens in each slot, the same in every layer
  std::int64_t capacity = 0;          // of each slot

  std::int64_t bytes() const;  // 2 * layers * G * h * size of a value, a token; for N * C tokens
  void clear(std::int64_t slot) { lengths.at(static_cast<std::size_t>(slot)) = 0; }
};

// Of the layers that are here. The memory is asked for at once and touched as it fills.
KeyValueCache make_cache(const model::ModelSpec& spec, const model::LayerRange& layers, const ModelOptions& options,
                         std::int64_t slots, std::int64_t capacity);

// Tokens that follow what a cache holds: those of one sequence after another, without padding between them.
struct NewTokens {
  struct Run {
    std::int64_t slot = 0;
    std::int64_t past = 0;  // tokens of the slot before them, which is also the first one's position
    std::int64_t count = 0;
  };
  std::vector<Run> runs;  // a slot has at most one
  Batch batch;            // tokens and positions, (1, T)

  std::int64_t tokens() const { return batch.tokens_BS.numel(); }
};

// New tokens of some slots. A slot that would grow beyond the capacity, or that comes twice, is a bug.
struct SlotTokens {
  std::int64_t slot = 0;
  std::vector<std::int64_t> tokens;
};
NewTokens follow(const KeyValueCache& cache, const std::vector<SlotTokens>& sequences);

// Once every layer has written them, the new tokens belong to what the cache holds.
void advance(KeyValueCache& cache, const NewTokens& tokens);

}  // namespace trireme::nn
