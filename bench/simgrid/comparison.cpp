#include "comparison.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "counts.h"
#include "execution.h"
#include "plan/all_to_all/generators.h"
#include "platform/platform_file.h"
#include "sim/network/pattern_time.h"

namespace trireme::simgrid_bench {
namespace {

Topology topology_of(const Setting& s) {
  return s.topology == "fat_tree" ? Topology::fat_tree : Topology::dragonfly;
}

sim::Fabric fabric_of(const Setting& s, const plan::NodeShape& shape) {
  const auto platform = platform::load_platform(s.platform);
  return with_trunks(sim::fabric_of(platform.datasheet, shape, s.message_s), shape, topology_of(s));
}

class Watch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

Comparison::Comparison(const Setting& setting)
    : setting_(setting),
      shape_(plan::NodeShape::even(setting.ranks, setting.ranks_per_node, setting.nodes_per_group)),
      fabric_(fabric_of(setting, shape_)),
      hosts_(make_network(fabric_, shape_, topology_of(setting))),
      skewed_(skewed_counts(shape_, setting.skewed_rows, setting.seed)) {}

std::vector<std::string> Comparison::patterns() const {
  return plan::pattern_names(shape_);
}

nlohmann::json Comparison::run(const Case& c) const {
  const bool balanced = c.counts == "balanced";
  const plan::UniformRouting even = balanced_counts(shape_);
  const plan::RowCounts& counts = balanced ? static_cast<const plan::RowCounts&>(even) : *skewed_;
  const double row_bytes = balanced ? c.bytes_per_pair : c.bytes_per_pair / setting_.skewed_rows;
  const Watch sim_watch;
  const sim::PatternTime predicted =
      balanced ? sim::balanced_time(c.pattern, shape_, fabric_, even, row_bytes)
               : sim::pattern_time(plan::make_pattern(c.pattern, shape_), shape_, fabric_, counts, row_bytes);
  const double sim_wall_s = sim_watch.seconds();
  const Watch watch;
  const Execution executed =
      execute(plan::make_pattern(c.pattern, shape_), hosts_, counts, row_bytes, setting_.message_s);
  return {{"pattern", c.pattern},
          {"counts", c.counts},
          {"topology", setting_.topology},
          {"ranks", shape_.size()},
          {"nodes", shape_.num_nodes()},
          {"groups", shape_.num_groups()},
          {"bytes_per_pair", c.bytes_per_pair},
          {"messages", executed.messages},
          {"simgrid_s", executed.seconds},
          {"sim_s", predicted.seconds},
          {"ratio", predicted.seconds / executed.seconds},
          {"busiest", predicted.busiest},
          {"simgrid_wall_s", watch.seconds()},
          {"sim_wall_s", sim_wall_s}};
}

}  // namespace trireme::simgrid_bench
