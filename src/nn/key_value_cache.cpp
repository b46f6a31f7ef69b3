#include "nn/key_value_cache.h"

#include <set>

#include <ATen/ATen.h>

#include "base/errors.h"
#include "nn/fresh.h"

namespace trireme::nn {

std::int64_t KeyValueCache::bytes() const {
  std::int64_t total = 0;
  for (const Layer& layer : layers)
    total += static_cast<std::int64_t>(layer.keys_NCGh.nbytes() + layer.values_NCGh.nbytes());
  return total;
}

KeyValueCache make_cache(const model::ModelSpec& spec, const model::LayerRange& layers, const ModelOptions& options,
                         std::int64_t slots, std::int64_t capacity) {
  TRIREME_CHECK(slots > 0 && capacity > 0, "a cache of {} sequences of {} tokens", slots, capacity);
  KeyValueCache cache{.lengths = std::vector<std::int64_t>(static_cast<std::size_t>(slots), 0), .capacity = capacity};
  const auto tensor = [&] {
    return fresh({slots, capacity, spec.attention.num_kv_heads, spec.attention.head_dim},
                 at::TensorOptions().device(options.device).dtype(options.dtype));
  };
  for (int i = 0; i < layers.num_layers; ++i) cache.layers.push_back({.keys_NCGh = tensor(), .values_NCGh = tensor()});
  return cache;
}

NewTokens follow(const KeyValueCache& cache, const std::vector<SlotTokens>& sequences) {
  NewTokens out;
  std::vector<std::int64_t> tokens, positions;
  std::set<std::int64_t> slots;
  for (const SlotTokens& s : sequences) {
    TRIREME_CHECK(slots.insert(s.slot).second, "slot {} comes twice", s.slot);
    const std::int64_t past = cache.lengths.at(static_cast<std::size_t>(s.slot));
    const auto count = static_cast<std::int64_t>(s.tokens.size());
    TRIREME_CHECK(count > 0 && past + count <= cache.capacity, "{} tokens behind {} of a cache for {}", count, past,
                  cache.capacity);
    out.runs.push_back({.slot = s.slot, .past = past, .count = count});
    for (std::int64_t i = 0; i < count; ++i) positions.push_back(past + i);
    tokens.insert(tokens.end(), s.tokens.begin(), s.tokens.end());
  }
  TRIREME_CHECK(!tokens.empty(), "no new tokens");
  out.batch.tokens_BS = at::tensor(tokens, at::kLong).unsqueeze(0);
  out.batch.positions_BS = at::tensor(positions, at::kLong).unsqueeze(0);
  return out;
}

void advance(KeyValueCache& cache, const NewTokens& tokens) {
  for (const NewTokens::Run& run : tokens.runs) cache.lengths.at(static_cast<std::size_t>(run.slot)) += run.count;
}

}  // namespace trireme::nn
