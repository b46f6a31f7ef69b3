// How rows may fall on the ranks of expert groups where nobody has routed them yet.
#pragma once
#include <cstdint>
#include <vector>

#include "plan/plan.h"
#include "plan/run_files.h"
#include "plan/run_spec.h"

namespace trireme::sim {

// Rows by action of every rank, as a run measures them (expert_rows): of each micro-batch and layer of an expert group,
// every expert gets a normal number around the mean, `cv` times it wide and never below 0, in all as many rows as are
// sent. The same for the same seed. In steps of a 32nd of an equal share, so that few of them differ.
std::vector<plan::MeasuredRank> sampled_rows(const plan::Plan& plan, const plan::RunSpec& run, double cv,
                                             std::uint64_t seed);

}  // namespace trireme::sim
