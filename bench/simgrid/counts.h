// Who has how many rows for whom: evenly, or as skewed routing makes it.
#pragma once
#include <cstdint>
#include <memory>

#include "plan/all_to_all/node_shape.h"
#include "plan/all_to_all/row_counts.h"

namespace trireme::simgrid_bench {

inline constexpr int top_k = 8;

// One row of each member for each other one; tokens are routed to 8 of 256 experts, or of as many as there are members.
plan::UniformRouting balanced_counts(const plan::NodeShape& shape);

// The same number of rows in all, of real tokens: each goes to 8 different members, drawn with weights that differ from
// member to member (log-normal, sigma 0.5), the same for all sources. `rows` of each member for each other one on
// average.
std::unique_ptr<plan::TokenRoutes> skewed_counts(const plan::NodeShape& shape, int rows, std::uint64_t seed);

}  // namespace trireme::simgrid_bench
