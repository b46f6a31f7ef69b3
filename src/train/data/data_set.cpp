#include "train/data/data_set.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/errors.h"
#include "base/regular_file.h"
#include "train/data/dataset_meta.h"

namespace trireme::train {
namespace {

constexpr std::int64_t blocks = 64, tokens_of_block = 2048, bounds = 4096;

template <class T>
XXH64_hash_t mix(XXH64_hash_t seed, const std::vector<T>& values) {
  return XXH3_64bits_withSeed(values.data(), values.size() * sizeof(T), seed);
}

// Of a SentencePiece model, which is kept as it is; files of Hugging Face may say the same in other words.
std::string tokenizer_text(const std::string& prefix, const DatasetMeta& meta) {
  if (meta.tokenizer != "sentencepiece" || meta.tokenizer_file.empty()) return {};
  std::ifstream in = open_regular(std::filesystem::path(prefix).parent_path() / meta.tokenizer_file);
  return {std::istreambuf_iterator<char>(in), {}};
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

void check_same_tokenizer(const plan::RunSpec& run) {
  std::optional<DatasetMeta> first;
  std::string first_prefix;
  for (const auto& [key, sets] : {std::pair{"data.train", &run.data.train}, std::pair{"data.valid", &run.data.valid}})
    for (const plan::DataSet& set : *sets) {
      if (set.prefix == "random") continue;
      const auto meta = read_meta(set.prefix);
      if (!meta || meta->tokenizer.empty()) continue;
      if (!first) {
        first = meta, first_prefix = set.prefix;
      } else if (meta->tokenizer != first->tokenizer || meta->vocab_size != first->vocab_size ||
                 tokenizer_text(set.prefix, *meta) != tokenizer_text(first_prefix, *first)) {
        const bool same_size = meta->tokenizer == first->tokenizer && meta->vocab_size == first->vocab_size;
        throw ConfigError({.file = run.file,
                           .key = key,
                           .value = set.prefix,
                           .allowed = fmt::format("was made with another tokenizer ({}, {} tokens) than {} ({}, {} tokens{}): "
                                                  "all sets of a run need the same",
                                                  meta->tokenizer, meta->vocab_size, first_prefix, first->tokenizer,
                                                  first->vocab_size, same_size ? ", but other ones" : "")});
      }
    }
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
