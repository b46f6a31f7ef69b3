#include "train/data/bigram.h"

#include <algorithm>
#include <cmath>

#include "base/errors.h"

namespace trireme::train {
namespace {

constexpr std::int64_t largest_dense_vocabulary = 4096;

}  // namespace

BigramModel::BigramModel(const TokenReader& tokens, std::int64_t vocab_size, bool reset_at_documents)
    : vocab_size_(vocab_size) {
  const auto v = static_cast<std::size_t>(vocab_size);
  unigram_.assign(v, 0);
  followed_.assign(v, 0);
  successors_.assign(v, 0);
  const bool dense = vocab_size <= largest_dense_vocabulary;
  if (dense) dense_.assign(v * v, 0);

  std::vector<std::int64_t> block(1 << 16);
  std::int64_t previous = -1, document = 0;
  const std::int64_t counted = std::min(tokens.num_tokens(), most_bigram_tokens);
  for (std::int64_t first = 0; first < counted; first += static_cast<std::int64_t>(block.size())) {
    const auto n = std::min<std::int64_t>(static_cast<std::int64_t>(block.size()), counted - first);
    const std::span<std::int64_t> here(block.data(), static_cast<std::size_t>(n));
    tokens.read(first, here);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t token = here[static_cast<std::size_t>(i)];
      TRIREME_CHECK(token >= 0 && token < vocab_size, "token {} of {}", token, vocab_size);
      bool begins = false;
      while (document < tokens.num_documents() && tokens.first_token(document) <= first + i) {
        begins = true;
        ++document;
      }
      ++unigram_[static_cast<std::size_t>(token)];
      if (previous >= 0 && !(begins && reset_at_documents)) {
        const auto key = static_cast<std::uint64_t>(previous * vocab_size + token);
        std::uint32_t& count = dense ? dense_[key] : sparse_[key];
        if (count++ == 0) ++successors_[static_cast<std::size_t>(previous)];
        ++followed_[static_cast<std::size_t>(previous)];
      }
      previous = token;
    }
  }
  num_tokens_ = static_cast<double>(counted);
}

std::uint32_t BigramModel::pair_count(std::int64_t previous, std::int64_t next) const {
  const auto key = static_cast<std::uint64_t>(previous * vocab_size_ + next);
  if (!dense_.empty()) return dense_[key];
  const auto found = sparse_.find(key);
  return found == sparse_.end() ? 0 : found->second;
}

double BigramModel::log_probability(std::int64_t previous, std::int64_t next) const {
  const auto v = static_cast<std::size_t>(previous);
  const double unigram = (static_cast<double>(unigram_[static_cast<std::size_t>(next)]) + 1.0) /
                         (num_tokens_ + static_cast<double>(vocab_size_));
  const double weight = static_cast<double>(successors_[v]), total = static_cast<double>(followed_[v]);
  if (total == 0) return std::log(unigram);
  return std::log((pair_count(previous, next) + weight * unigram) / (total + weight));
}

CrossEntropy cross_entropy(const BigramModel& model, const SequenceSource& source, std::int64_t num_sequences) {
  const auto length = static_cast<std::size_t>(source.sequence_length());
  std::vector<std::int64_t> tokens(length), targets(length), positions(length), documents(length);
  std::vector<float> weights(length);
  CrossEntropy out;
  double sum = 0;
  for (std::int64_t n = 0; n < num_sequences; ++n) {
    source.read(n, {tokens, targets, weights, positions, documents});
    for (std::size_t i = 0; i < length; ++i) {
      if (weights[i] == 0) continue;
      sum -= static_cast<double>(weights[i]) * model.log_probability(tokens[i], targets[i]);
      out.num_targets += static_cast<double>(weights[i]);
    }
  }
  out.nats_per_token = out.num_targets > 0 ? sum / out.num_targets : 0;
  return out;
}

}  // namespace trireme::train
