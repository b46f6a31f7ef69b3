#include "train/data/sequence_source.h"

#include <algorithm>
#include <numeric>

#include "base/errors.h"
#include "base/rng.h"

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

std::int64_t first_sequence(const plan::BatchSpec& batch, int dp, std::int64_t sequences_seen, int dp_index,
                            std::int64_t mb) {
  return sequences_seen + (dp_index * batch.num_micro_batches(dp) + mb) * batch.micro_batch;
}

}  // namespace trireme::train
