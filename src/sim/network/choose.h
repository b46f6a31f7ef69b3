// Which pattern is the fastest for a group and a size of message, by price.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "plan/all_to_all/node_shape.h"
#include "plan/all_to_all/row_counts.h"
#include "sim/network/fabric.h"

namespace trireme::sim {

struct Candidate {
  std::string pattern;
  double seconds = 0;
  bool operator==(const Candidate&) const = default;
};

// Candidates by price, the fastest first; of equal ones, the one named first. Never empty.
struct Choice {
  std::vector<Candidate> ranked;
  bool raced = false;  // by times of a race on these nodes; else by price
  const Candidate& pick() const { return ranked.front(); }
  const Candidate* runner_up() const { return ranked.size() > 1 ? &ranked[1] : nullptr; }
};
// "halo (predicted 1.2 ms; runner-up flat, 1.9 ms)"; "raced" for predicted where it is.
std::string to_text(const Choice& choice);

Choice rank_patterns(const std::vector<std::string>& patterns,
                     const std::function<double(const std::string&)>& seconds);

Choice choose_pattern(const std::vector<std::string>& patterns, const plan::NodeShape& shape, const Fabric& fabric,
                      const plan::UniformRouting& routing, double row_bytes);
// By the platform's races where they have every one of the patterns on as many nodes and ranks with this top_k, and the
// bytes that a member has for another one lie between their smallest and largest; else by price.
Choice choose_pattern(const std::vector<std::string>& patterns, const plan::NodeShape& shape,
                      const platform::PlatformSpec& platform, const plan::UniformRouting& routing, double row_bytes);
// By actual counts.
Choice choose_pattern(const std::vector<std::string>& patterns, const plan::NodeShape& shape, const Fabric& fabric,
                      const plan::RowCounts& counts, double row_bytes);

}  // namespace trireme::sim
