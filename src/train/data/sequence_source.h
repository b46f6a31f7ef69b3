// Where training and evaluation sequences come from. A sequence is known by its number alone (training: sequences of all
// steps before + its place in the batch), so the order depends neither on the layout nor on the batch, and resuming needs
// only the number of sequences that were taken.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "plan/run_spec.h"
#include "train/data/loss_weights.h"
#include "train/data/token_file.h"

namespace trireme::train {

// One sequence of S tokens, to be filled in.
struct SequenceSlots {
  std::span<std::int64_t> tokens;
  std::span<std::int64_t> targets;    // the next token
  std::span<float> weights;           // of the target in the loss; 0: none (the document ends here), or padding
  std::span<std::int64_t> positions;  // restart at each document where reset_at_documents
  std::span<std::int64_t> documents;  // 0, 1, ... within the sequence; -1: padding
};

class SequenceSource {
 public:
  virtual ~SequenceSource() = default;
  virtual std::int64_t sequence_length() const = 0;
  // Number of different sequences: training repeats in another order after them, evaluation pads.
  virtual std::int64_t num_sequences() const = 0;
  // Any number from 0 on. Every element of every slot is written. Not thread-safe.
  virtual void read(std::int64_t number, SequenceSlots out) const = 0;
};

// Uniform random tokens from (seed, number): for benchmarks. Numbers from num_sequences on are padding.
std::unique_ptr<SequenceSource> random_source(std::int64_t vocab_size, std::int64_t sequence_length, std::uint64_t seed,
                                              std::int64_t num_sequences = INT64_MAX);

// A sequence of padding: token 0, weight 0, document -1.
void fill_padding(SequenceSlots out);

// Packed training sequences, as Megatron's: for epoch e the documents are put in an order drawn from (seed, e) and
// concatenated, the stream is cut into windows of S + 1 tokens that overlap by one, and the windows are put in an order
// drawn from (seed, e). ConfigError when the file has fewer than S + 1 tokens.
struct PackingOptions {
  std::int64_t sequence_length = 0;
  bool reset_at_documents = true;
  std::uint64_t seed = 1;
  std::shared_ptr<const LossWeights> weights;  // null: every target counts 1
};
std::unique_ptr<SequenceSource> training_source(std::shared_ptr<const TokenReader> tokens,
                                                const PackingOptions& options);

// The first `num_sequences` windows in the order of the file; numbers behind the last are padding, so that
// all ranks can run equal batches.
std::unique_ptr<SequenceSource> evaluation_source(std::shared_ptr<const TokenReader> tokens,
                                                  const PackingOptions& options, std::int64_t num_sequences);

// Number of the first sequence of micro-batch `mb` of data rank `dp_index`, in a step before which `sequences_seen` were
// taken: a data rank's sequences are contiguous.
std::int64_t first_sequence(const plan::BatchSpec& batch, int dp, std::int64_t sequences_seen, int dp_index,
                            std::int64_t mb);

}  // namespace trireme::train
