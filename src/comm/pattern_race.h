// Races all-to-all patterns on the same routed tokens, one sample of each in turn.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "comm/group.h"
#include "plan/all_to_all/drawn_tokens.h"
#include "plan/all_to_all/node_shape.h"
#include "plan/all_to_all/row_counts.h"

namespace trireme::comm {

struct RaceOptions {
  std::vector<std::string> patterns;  // names of plan::make_pattern
  std::vector<double> bytes_per_pair{512, 4096, 32768, 262144};
  int samples = 7;
  double batch_s = 0.05;
  int top_k = 8;
  int experts = 256;  // rounded up to a multiple of the members
  int in_flight = 8;  // of scattered
  std::uint64_t seed = 1;
  std::function<void(const std::string&)> progress;
};

// So that a member has on average bytes_per_pair for each other one.
using RacedTokens = plan::DrawnTokens;
RacedTokens raced_tokens(int members, double bytes_per_pair, const RaceOptions& options);
// The same with the members that the experts live with.
plan::TokenRoutes routes_of(const RacedTokens& tokens, const plan::NodeShape& shape, const RaceOptions& options);

struct RacePoint {
  std::string pattern;
  double bytes_per_pair = 0;  // asked for: the mean of what a member has for another one
  double median_s = 0, p99_s = 0, max_s = 0;
  int samples = 0;
  double busy_cores = 0;  // of all ranks together
};

// Collective; the same on every member, by size, then pattern. Times the dispatch of rows whose counts are known. A
// RuntimeFailure where a pattern brings other rows than the first one.
std::vector<RacePoint> race_patterns(Group& group, const plan::NodeShape& shape, const RaceOptions& options);

}  // namespace trireme::comm
