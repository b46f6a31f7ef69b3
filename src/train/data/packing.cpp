#include "train/data/packing.h"

#include <algorithm>
#include <numeric>

#include "base/errors.h"
#include "base/rng.h"

namespace trireme::train {

DocumentStream::DocumentStream(const TokenReader& tokens, std::vector<std::int64_t> order, const LossWeights* weights)
    : tokens_(tokens), weights_(weights), order_(std::move(order)), begin_(order_.size() + 1, 0) {
  for (std::size_t i = 0; i < order_.size(); ++i) begin_[i + 1] = begin_[i] + tokens_.document_length(order_[i]);
}

void DocumentStream::read(std::int64_t first, std::span<std::int64_t> tokens, std::span<std::int64_t> documents,
                          std::span<float> weights) const {
  if (weights_ == nullptr) std::ranges::fill(weights, 1.0f);
  // The last document that begins at or before `first`; empty ones before it hold no token.
  auto place = static_cast<std::size_t>(std::upper_bound(begin_.begin(), begin_.end(), first) - begin_.begin() - 1);
  std::size_t done = 0;
  while (done < tokens.size()) {
    const std::int64_t within = first + static_cast<std::int64_t>(done) - begin_[place];
    const std::int64_t length = begin_[place + 1] - begin_[place];
    const auto n = std::min(tokens.size() - done, static_cast<std::size_t>(length - within));
    const std::int64_t in_file = tokens_.first_token(order_[place]) + within;
    tokens_.read(in_file, tokens.subspan(done, n));
    if (weights_ != nullptr) weights_->read(in_file, weights.subspan(done, n));
    std::fill_n(documents.begin() + static_cast<std::ptrdiff_t>(done), n, static_cast<std::int64_t>(place));
    done += n;
    ++place;
  }
}

void fill_slots(const Window& window, bool reset_at_documents, SequenceSlots out) {
  std::int64_t document = 0, begin = 0;
  const std::size_t length = window.tokens.size() - 1;
  for (std::size_t i = 0; i < length; ++i) {
    if (reset_at_documents && i > 0 && window.documents[i] != window.documents[i - 1]) {
      ++document;
      begin = static_cast<std::int64_t>(i);
    }
    out.tokens[i] = window.tokens[i];
    out.targets[i] = window.tokens[i + 1];
    // The token behind a document's end is another document's first, which nothing before it could tell.
    const bool ends = reset_at_documents && window.documents[i + 1] != window.documents[i];
    out.weights[i] = ends ? 0.0f : window.weights[i + 1];
    out.positions[i] = static_cast<std::int64_t>(i) - begin;
    out.documents[i] = document;
  }
}

namespace {

std::int64_t windows_or_fail(const TokenReader& tokens, const PackingOptions& options) {
  const std::int64_t n = num_windows(tokens.num_tokens(), options.sequence_length);
  if (n == 0)
    throw ConfigError({.file = tokens.origin().file,
                       .key = tokens.origin().key,
                       .value = tokens.prefix(),
                       .allowed = fmt::format("holds {} tokens: one sequence takes batch.sequence_length + 1 = {}",
                                              tokens.num_tokens(), options.sequence_length + 1)});
  return n;
}

class PackedSource : public SequenceSource {
 public:
  PackedSource(std::shared_ptr<const TokenReader> tokens, const PackingOptions& options)
      : tokens_(std::move(tokens)),
        options_(options),
        num_windows_(windows_or_fail(*tokens_, options)) {
    const auto length = static_cast<std::size_t>(options.sequence_length + 1);
    window_ = {.tokens = std::vector<std::int64_t>(length),
               .documents = std::vector<std::int64_t>(length),
               .weights = std::vector<float>(length)};
  }

  std::int64_t sequence_length() const override { return options_.sequence_length; }

 protected:
  void read_window(const DocumentStream& stream, std::int64_t window, SequenceSlots out) const {
    stream.read(window * options_.sequence_length, window_.tokens, window_.documents, window_.weights);
    fill_slots(window_, options_.reset_at_documents, out);
  }

  std::shared_ptr<const TokenReader> tokens_;
  PackingOptions options_;
  std::int64_t num_windows_;

 private:
  mutable Window window_;
};

class TrainingSource final : public PackedSource {
 public:
  using PackedSource::PackedSource;

  std::int64_t num_sequences() const override { return num_windows_; }

  void read(std::int64_t number, SequenceSlots out) const override {
    const std::int64_t number_of_epoch = number / num_windows_;
    if (!epoch_ || epoch_->number != number_of_epoch) epoch_ = make_epoch(number_of_epoch);
    read_window(epoch_->stream, epoch_->windows[static_cast<std::size_t>(number % num_windows_)], out);
  }

 private:
  struct Epoch {
    std::int64_t number;
    DocumentStream stream;
    std::vector<std::int64_t> windows;
  };

  std::unique_ptr<Epoch> make_epoch(std::int64_t number) const {
    std::vector<std::int64_t> documents(static_cast<std::size_t>(tokens_->num_documents()));
    random_permutation(stream_key(options_.seed, fmt::format("documents of epoch {}", number)), documents);
    std::vector<std::int64_t> windows(static_cast<std::size_t>(num_windows_));
    random_permutation(stream_key(options_.seed, fmt::format("windows of epoch {}", number)), windows);
    DocumentStream stream(*tokens_, std::move(documents), options_.weights.get());
    return std::make_unique<Epoch>(Epoch{number, std::move(stream), std::move(windows)});
  }

  mutable std::unique_ptr<Epoch> epoch_;
};

class EvaluationSource final : public PackedSource {
 public:
  EvaluationSource(std::shared_ptr<const TokenReader> tokens, const PackingOptions& options, std::int64_t num_sequences)
      : PackedSource(std::move(tokens), options),
        stream_(*tokens_, in_file_order(tokens_->num_documents()), options.weights.get()),
        num_sequences_(std::min(num_sequences, num_windows_)) {}

  std::int64_t num_sequences() const override { return num_sequences_; }

  void read(std::int64_t number, SequenceSlots out) const override {
    if (number < num_sequences_) return read_window(stream_, number, out);
    fill_padding(out);
  }

 private:
  static std::vector<std::int64_t> in_file_order(std::int64_t n) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    return order;
  }

  DocumentStream stream_;
  std::int64_t num_sequences_;
};

}  // namespace

std::unique_ptr<SequenceSource> training_source(std::shared_ptr<const TokenReader> tokens,
                                                const PackingOptions& options) {
  return std::make_unique<TrainingSource>(std::move(tokens), options);
}

std::unique_ptr<SequenceSource> evaluation_source(std::shared_ptr<const TokenReader> tokens,
                                                  const PackingOptions& options, std::int64_t num_sequences) {
  return std::make_unique<EvaluationSource>(std::move(tokens), options, num_sequences);
}

}  // namespace trireme::train
