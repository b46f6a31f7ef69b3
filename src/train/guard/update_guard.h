// Decides once a step, by the step's sums, whether its update is made. The sums are one value on all ranks, so that all
// ranks decide alike, in every layout.
//
//   the loss is a spike (loss_spikes.h)    what train.loss_spike.action says: stop, skip or rewind
//   the gradient norm is not finite        skip
//   more than train.max_skipped_updates    stop
//     updates skipped in a row
//   another rewind than the last of        stop
//     train.loss_spike.max_rewinds
//
// Its state goes into checkpoints: a resumed run decides as the uninterrupted one.
#pragma once
#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "plan/run_spec.h"
#include "train/guard/loss_spikes.h"

namespace trireme::train {

struct StepHealth {
  double loss = 0;          // mean
  bool has_targets = true;  // false: there is no loss to judge
  double gradient_norm = 0;
};

enum class Verdict { update, skip, rewind, stop };

struct Judgement {
  Verdict verdict = Verdict::update;
  std::string reason;          // empty for an update
  std::int64_t bad_steps = 0;  // steps in a row without an update, this one included
};

class UpdateGuard {
 public:
  UpdateGuard(const plan::TrainSpec& train, std::int64_t vocab_size);

  Judgement judge(const StepHealth& step);

  // Updates skipped up to now in a row, of the last step judged.
  std::int64_t skipped_in_a_row() const { return skipped_; }
  std::int64_t rewinds() const { return rewinds_; }  // of the run

  nlohmann::json state() const;
  // As it was when `state` was taken, but for the rewinds made since. ConfigError with the file and `key`, where the state
  // stands in it.
  void restore(const nlohmann::json& state, const std::string& file, const std::string& key);

 private:
  Judgement skip(std::string reason);

  plan::TrainSpec train_;
  LossSpikes spikes_;
  std::int64_t skipped_ = 0, rewinds_ = 0;
};

}  // namespace trireme::train
