// `trireme rehearse --load`: how the rows of a rehearsal fall on experts.
#pragma once
#include <string>

#include "plan/plan.h"
#include "plan/run_spec.h"
#include "sim/rates/rates.h"
#include "sim/sampled_load.h"

namespace trireme::apps {

struct RehearsalLoad {
  sim::RoutedLoad load;
  std::string words;  // empty where no experts are spread
};

// "platform", "even", a number, or a run's folder. ConfigError (key --load) for anything else, and for a run of other
// experts.
RehearsalLoad rehearsal_load(const std::string& given, const plan::RunSpec& run, const plan::Mesh& mesh, const sim::Rates& rates);

}  // namespace trireme::apps
