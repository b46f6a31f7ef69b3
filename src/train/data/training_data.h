// The training sequences of a run: one data set, or a blend of several, each shuffled by epochs of its own.
#pragma once
#include <memory>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "train/data/data_position.h"
#include "train/data/data_set.h"

namespace trireme::train {

class TrainingData : public SequenceSource {
 public:
  explicit TrainingData(const plan::RunSpec& run);

  std::int64_t sequence_length() const override { return now_.sequence_length; }
  std::int64_t num_sequences() const override;  // of all sets; INT64_MAX with a random one
  void read(std::int64_t number, SequenceSlots out) const override;

  // Goes on from a checkpoint's state, before the first read. `file` is where the state was read. ConfigError as
  // resume_position, and for the state of an older program of which the position can't be told.
  struct Resumed {
    std::int64_t sequences_seen = 0;
    std::vector<std::string> messages;
  };
  Resumed resume(const nlohmann::json& state, const std::string& file);

  // What a checkpoint keeps, under the keys that resume() reads.
  nlohmann::json state(std::int64_t sequences_seen) const;
  const DataPosition& position() const { return now_; }

 private:
  void set_position(DataPosition position);
  // Of a state without a position: sequences that its steps took, where this run's batch accounts for its tokens.
  Resumed resume_old(const nlohmann::json& state, const std::string& file) const;

  plan::RunSpec run_;
  std::vector<std::unique_ptr<SequenceSource>> sources_;  // of the run's sets, in its order
  DataPosition now_;
  Blend blend_;
};

// As RUN.toml says. Checks files, vocabulary and loss weights.
std::unique_ptr<TrainingData> open_training(const plan::RunSpec& run);

}  // namespace trireme::train
