// Whether a step's loss is a spike: not finite, or more than `factor` times what the run is held against.
//
//   from min(window, 8) losses on   their running median, over the last `window`; at least a tenth of ln(vocabulary),
//                                   since a model that has learnt its text by heart has losses near 0 that differ by factors
//   before that                     the first loss, or ln(vocabulary), the loss of equal guesses, where that is more
//
// So the first loss, which no update has touched, is a spike only where it is not finite. Spikes do not enter the median.
// A slow divergence, which stays below `factor` times the median that follows it, is none.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "plan/run_spec.h"

namespace trireme::train {

class LossSpikes {
 public:
  LossSpikes(const plan::LossSpikeSpec& spec, std::int64_t vocab_size);

  // Why it is one: "the loss is 97.2, more than 3 times 5.02, the median of the last 50 losses"; empty: it is none.
  std::string why_spike(double loss) const;
  void accept(double loss);  // one that is none

  nlohmann::json state() const;
  // `key` is where it stands in `file`, for errors. The losses of a longer window are cut to the newest.
  void restore(const nlohmann::json& state, const std::string& file, const std::string& key);

 private:
  struct Reference {
    double loss = 0;
    std::string what;
  };
  std::optional<Reference> reference() const;  // none: any finite loss is good

  plan::LossSpikeSpec spec_;
  double equal_guesses_;
  std::optional<double> first_;
  std::deque<double> losses_;
};

}  // namespace trireme::train
