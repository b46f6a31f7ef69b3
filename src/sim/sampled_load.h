// How rows may fall on experts, and so on the ranks of expert groups, where nobody has routed them yet.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "base/json.h"
#include "plan/plan.h"
#include "plan/run_files.h"
#include "plan/run_spec.h"

namespace trireme::sim {

// Evenly, drawn, or as somebody counted them.
struct RoutedLoad {
  // Every expert gets a normal number around the mean, `cv` times it wide and never below 0, drawn by a counter-based
  // function of (seed, expert group, layer, micro-batch). 0: all alike.
  double cv = 0;
  std::uint64_t seed = 0;
  // By layer: of each expert, on any scale, for every micro-batch. Layers that are not there are drawn.
  std::map<int, std::vector<double>> counts;
  bool operator==(const RoutedLoad&) const = default;
};
TRIREME_JSON(RoutedLoad)

// The first rank of the expert group that `rank` is in.
int expert_group(const plan::Mesh& mesh, int rank);

// What of a micro-batch's rows each expert of a layer gets, on any scale.
std::vector<float> expert_weights(const RoutedLoad& load, int num_experts, int group, int layer, int mb);

// The rows that one rank of `tokens` tokens sends to each expert by these weights: whole numbers, tokens x top_k in all, and
// none above `tokens`, since a token's experts differ. What an expert can't take goes to the others by their weights.
std::vector<std::int64_t> whole_rows(const std::vector<float>& weights, std::int64_t tokens, std::int64_t top_k);

// Rows by action of every rank, as a run measures them (expert_rows): in all as many as are sent. In steps of a 32nd of
// an equal share, so that few of them differ.
std::vector<plan::MeasuredRank> sampled_rows(const plan::Plan& plan, const plan::RunSpec& run, const RoutedLoad& load);

}  // namespace trireme::sim
