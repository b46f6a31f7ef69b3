#include "plan/all_to_all/generators.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "plan/all_to_all/allgather.h"
#include "plan/all_to_all/allgather_a2a.h"
#include "plan/all_to_all/bruck.h"
#include "plan/all_to_all/dedup.h"
#include "plan/all_to_all/flat.h"
#include "plan/all_to_all/halo.h"
#include "plan/all_to_all/node_aware.h"

namespace trireme::plan {

std::vector<std::string> pattern_names() {
  return {"flat", "pairwise", "scattered", "bruck", "node_aware", "halo", "halo3", "allgather_a2a", "dedup"};
}

bool needs_nodes(const std::string& name) {
  return name != "flat" && name != "pairwise" && name != "scattered" && name != "bruck";
}

std::vector<std::string> pattern_names(const NodeShape& shape) {
  auto names = pattern_names();
  if (shape.num_groups() == 1 || shape.num_nodes() % shape.nodes_per_group() != 0) std::erase(names, "halo3");
  return names;
}

std::vector<std::string> priced_pattern_names() {
  auto names = pattern_names();
  names.push_back("allgather");
  return names;
}

std::vector<std::string> priced_pattern_names(const NodeShape& shape) {
  auto names = pattern_names(shape);
  names.push_back("allgather");
  return names;
}

Pattern make_pattern(const std::string& name, const NodeShape& shape, const PatternOptions& options) {
  if (name == "flat") return flat(shape.size(), options.senders);
  if (name == "pairwise") return pairwise(shape.size(), options.senders);
  if (name == "scattered") return scattered(shape.size(), options.in_flight, options.senders);
  if (name == "bruck") return bruck(shape.size(), options.senders);
  if (name == "node_aware") return node_aware(shape, options.senders);
  if (name == "halo") return halo(shape, options.senders);
  if (name == "halo3") return halo3(shape, options.senders);
  if (name == "allgather_a2a") return allgather_a2a(shape, options.senders);
  if (name == "dedup") return dedup(shape, options.senders);
  if (name == "allgather") return allgather(shape, options.senders);
  throw ConfigError({.key = "layout.all_to_all",
                     .value = name,
                     .allowed = fmt::format("one of {}", fmt::join(priced_pattern_names(), ", "))});
}

Pattern make_pattern(const std::string& name, int size) {
  return make_pattern(name, NodeShape::one_node(size));
}

}  // namespace trireme::plan
