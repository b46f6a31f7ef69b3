// The lengths of a run's expert computation with the rows that its routers really sent, against the prices, which share
// them equally: separates an error of cost from an error of load.
#pragma once
#include <vector>

#include "plan/plan.h"
#include "plan/run_files.h"
#include "plan/run_spec.h"
#include "sim/rates/rates.h"

namespace trireme::sim {

// SimulateOptions::scale for every rank of the mesh: 1 but for the forward and backward of routed experts, where it is
// their price with the measured rows of that micro-batch and layer over their price with an equal share. Ranks without
// measured rows keep 1.
std::vector<std::vector<double>> load_scale(const plan::Plan& plan, const plan::RunSpec& run,
                                            const Rates& rates, int threads,
                                            const std::vector<plan::MeasuredRank>& measured);

}  // namespace trireme::sim
