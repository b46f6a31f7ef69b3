#include "train/data/sequence_source.h"

#include <algorithm>
#include <numeric>

#include "base/errors.h"
#include "base/rng.h"
#include "train/data/packing.h"

namespace trireme::train {
namespace {

class RandomSource final : public SequenceSource {
 public:
  RandomSource(std::int64_t vocab_size, std::int64_t sequence_length, std::uint64_t seed, std::int64_t num_sequences)
      : vocab_size_(vocab_size), sequence_length_(sequence_length), seed_(seed), num_sequences_(num_sequences) {}

  std::int64_t sequence_length() const override { return sequence_length_; }
  std::int64_t num_sequences() const override { return num_sequences_; }

  void read(std::int64_t number, SequenceSlots out) const override {
    if (number >= num_sequences_) return fill_padding(out);
    const std::uint64_t key = stream_key(seed_, fmt::format("random tokens {}", number));
    const auto token = [&](std::int64_t i) {
      const std::uint64_t bits = random_bits(key, static_cast<std::uint64_t>(i));
      // The high half of the product is uniform in [0, vocab_size).
      const auto product = static_cast<unsigned __int128>(bits) * static_cast<std::uint64_t>(vocab_size_);
      return static_cast<std::int64_t>(product >> 64);
    };
    std::int64_t next = token(0);
    for (std::int64_t i = 0; i < sequence_length_; ++i) {
      const auto at = static_cast<std::size_t>(i);
      out.tokens[at] = next;
      out.targets[at] = next = token(i + 1);
      out.weights[at] = 1.0f;
      out.positions[at] = i;
      out.documents[at] = 0;
    }
  }

 private:
  std::int64_t vocab_size_, sequence_length_;
  std::uint64_t seed_;
  std::int64_t num_sequences_;
};

std::shared_ptr<const TokenReader> open_tokens(const plan::RunSpec& run, const char* key, const std::string& prefix) {
  if (prefix.empty())
    throw ConfigError({.file = run.file,
                       .key = key,
                       .allowed = "is missing: the prefix of a .bin/.idx pair is needed (or \"random\")"});
  auto tokens = std::make_shared<const TokenReader>(prefix, DataOrigin{.file = run.file, .key = key});
  tokens->check_vocabulary(run.model.vocab_size);
  return tokens;
}

std::string only_set(const plan::RunSpec& run, const char* key, const std::vector<plan::DataSet>& sets) {
  if (sets.size() > 1)
    throw ConfigError({.file = run.file, .key = key, .allowed = "blends of several sets are not trained yet"});
  return sets.empty() ? "" : sets[0].prefix;
}

PackingOptions packing(const plan::RunSpec& run) {
  return {.sequence_length = run.batch.sequence_length,
          .reset_at_documents = run.data.reset_at_documents,
          .seed = run.train.seed};
}

}  // namespace

std::unique_ptr<SequenceSource> random_source(std::int64_t vocab_size, std::int64_t sequence_length, std::uint64_t seed,
                                              std::int64_t num_sequences) {
  return std::make_unique<RandomSource>(vocab_size, sequence_length, seed, num_sequences);
}

void fill_padding(SequenceSlots out) {
  std::ranges::fill(out.tokens, 0);
  std::ranges::fill(out.targets, 0);
  std::ranges::fill(out.weights, 0.0f);
  std::iota(out.positions.begin(), out.positions.end(), std::int64_t{0});
  std::ranges::fill(out.documents, -1);
}

std::unique_ptr<SequenceSource> open_training(const plan::RunSpec& run) {
  const std::string prefix = only_set(run, "data.train", run.data.train);
  if (prefix == "random") return random_source(run.model.vocab_size, run.batch.sequence_length, run.train.seed);
  return training_source(open_tokens(run, "data.train", prefix), packing(run));
}

std::unique_ptr<SequenceSource> open_evaluation(const plan::RunSpec& run) {
  if (run.train.eval_sequences == 0) return nullptr;
  const std::string prefix = only_set(run, "data.valid", run.data.valid);
  // Another seed than training's: the same sequences would be seen data.
  if (prefix == "random")
    return random_source(run.model.vocab_size, run.batch.sequence_length, run.train.seed + 1, run.train.eval_sequences);
  return evaluation_source(open_tokens(run, "data.valid", prefix), packing(run), run.train.eval_sequences);
}

std::int64_t first_sequence(const plan::BatchSpec& batch, int dp, std::int64_t step, int dp_index, std::int64_t mb) {
  return step * batch.global_batch + (dp_index * batch.num_micro_batches(dp) + mb) * batch.micro_batch;
}

}  // namespace trireme::train
