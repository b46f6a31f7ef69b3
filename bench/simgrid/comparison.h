// One network in both simulators, and cases on it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "network.h"
#include "plan/all_to_all/node_shape.h"
#include "plan/all_to_all/row_counts.h"
#include "sim/network/fabric.h"

namespace trireme::simgrid_bench {

struct Setting {
  std::string platform;  // file
  std::string topology = "dragonfly";
  int ranks = 64, ranks_per_node = 8, nodes_per_group = 0;
  double message_s = 1e-6;
  int skewed_rows = 8;
  std::uint64_t seed = 1;
};

struct Case {
  std::string pattern;
  std::string counts;         // "balanced" or "skewed"
  double bytes_per_pair = 0;  // on average
};

class Comparison {
 public:
  // Makes SimGrid's network: one a process, after the engine. ConfigError where platform, shape and topology don't fit.
  explicit Comparison(const Setting& setting);

  const plan::NodeShape& shape() const { return shape_; }
  const sim::Fabric& fabric() const { return fabric_; }
  const std::vector<simgrid::s4u::Host*>& hosts() const { return hosts_; }
  // Those that the shape can run.
  std::vector<std::string> patterns() const;

  // To be called by an actor. pattern, counts, ranks, bytes_per_pair, messages, simgrid_s, sim_s, ratio (sim over
  // SimGrid), and how long both took: simgrid_wall_s, sim_wall_s.
  nlohmann::json run(const Case& c) const;

 private:
  Setting setting_;
  plan::NodeShape shape_;
  sim::Fabric fabric_;
  std::vector<simgrid::s4u::Host*> hosts_;
  std::unique_ptr<plan::RowCounts> skewed_;
};

}  // namespace trireme::simgrid_bench
