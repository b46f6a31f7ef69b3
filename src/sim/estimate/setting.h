// What an estimate is of: a model in a layout with a batch and a precision. Everything in it is a value of the user's;
// nothing is guessed here. Machines are platform::PlatformSpec, software a platform::StackProfile.
#pragma once
#include <vector>

#include "model/execution.h"
#include "model/model_spec.h"
#include "model/precision.h"
#include "plan/layout_spec.h"
#include "plan/run_spec.h"

namespace trireme::sim {

using model::ComputeFormat;
using model::Execution;
using model::Graphs;
using model::Precision;

// Rows per expert: balanced, spread with a coefficient of variation, or as counted.
struct ExpertLoad {
  double cv = 0;                // standard deviation of rows per expert over their mean
  double cold_start_cv = 0;     // the same in the first steps, before balancing works; 0: not asked
  std::vector<double> counts;   // of each expert; comes before cv
  bool operator==(const ExpertLoad&) const = default;
};

struct Setting {
  model::ModelSpec model;
  plan::LayoutSpec layout;
  plan::BatchSpec batch;
  Precision precision;
  ExpertLoad load;
  Execution execution;
  int num_devices = 1;
  bool operator==(const Setting&) const = default;
};

}  // namespace trireme::sim
