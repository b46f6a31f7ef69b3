// The layouts of a run that `trireme train` executes, each lowered and simulated on a platform, the fastest first.
#pragma once
#include <string>
#include <vector>

#include "plan/run_spec.h"
#include "trireme/platform_choice.h"

namespace trireme::apps {

struct PricedRun {
  plan::RunSpec run;  // with the pattern's name in place of "auto"
  double step_s = 0, tokens_per_s = 0;
  double peak_bytes = 0;              // of the rank that needs most
  std::vector<std::string> misfits;   // why its ranks don't fit in memory; empty: they do
};

// Each run's step and memory as `trireme plan RUN` predicts them. Those that fit come first, then the faster ones; equally
// fast ones in the given order. The result does not depend on the number of threads (0: all cores).
std::vector<PricedRun> price_runs(const std::vector<plan::RunSpec>& runs, int num_ranks,
                                  const ChosenPlatform& platform, int threads = 0);

// "pp 2, ep 2, dp 2, micro-batch 2, gpipe, layers 1+3, dedup"
std::string run_line(const plan::RunSpec& run);

}  // namespace trireme::apps
