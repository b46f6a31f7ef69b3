#include "train/data/data_set.h"

#include <algorithm>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/errors.h"

namespace trireme::train {
namespace {

constexpr std::int64_t blocks = 64, tokens_of_block = 2048, bounds = 4096;

template <class T>
XXH64_hash_t mix(XXH64_hash_t seed, const std::vector<T>& values) {
  return XXH3_64bits_withSeed(values.data(), values.size() * sizeof(T), seed);
}

}  // namespace

OpenedSet open_set(const plan::RunSpec& run, const char* key, const plan::DataSet& set) {
  OpenedSet out{.name = plan::name_of(set), .prefix = set.prefix, .weight = set.weight};
  if (set.prefix == "random") return out;
  out.tokens = std::make_shared<const TokenReader>(set.prefix, DataOrigin{.file = run.file, .key = key});
  out.tokens->check_vocabulary(run.model.vocab_size);
  out.weights = LossWeights::open(*out.tokens);
  return out;
}

std::string fingerprint(const OpenedSet& set) {
  if (!set.tokens) return "";
  const TokenReader& t = *set.tokens;
  std::vector<std::int64_t> shape{t.num_documents(), t.num_tokens()};
  for (std::int64_t i = 0, n = std::min(bounds, t.num_documents()); i < n; ++i)
    shape.push_back(t.first_token(t.num_documents() / n * i));
  XXH64_hash_t hash = mix(0, shape);
  const std::int64_t n = std::min(t.num_tokens(), tokens_of_block);
  // Whole where the blocks would meet.
  const std::int64_t starts =
      t.num_tokens() <= blocks * tokens_of_block ? (t.num_tokens() + n - 1) / std::max<std::int64_t>(n, 1) : blocks;
  std::vector<std::int64_t> tokens;
  std::vector<float> weights;
  for (std::int64_t i = 0; i < starts; ++i) {
    const std::int64_t first = starts == 1 ? 0 : (t.num_tokens() - n) / (starts - 1) * i;
    tokens.resize(static_cast<std::size_t>(std::min(n, t.num_tokens() - first)));
    t.read(first, tokens);
    hash = mix(hash, tokens);
    if (!set.weights) continue;
    weights.resize(tokens.size());
    set.weights->read(first, weights);
    hash = mix(hash, weights);
  }
  return fmt::format("{:016x}", hash);
}

PackingOptions packing_of(const plan::RunSpec& run, const OpenedSet& set) {
  return {.sequence_length = run.batch.sequence_length,
          .reset_at_documents = run.data.reset_at_documents,
          .seed = run.train.seed,
          .weights = set.weights};
}

}  // namespace trireme::train
