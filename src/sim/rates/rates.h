// What things cost on a machine: the one interface that every price goes through, of a search and of a run. Two
// implementations: a data sheet under a stack's profile (sheet_rates.h) and measured curves (probed_rates.h).
//
// Seconds of a device (or of a rank, on a host whose ranks share cores) while nothing else disturbs it.
#pragma once
#include <compare>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "platform/platform_spec.h"
#include "sim/estimate/collective_time.h"
#include "sim/estimate/described.h"
#include "sim/network/fabric.h"
#include "sim/rates/exchange_table.h"

namespace trireme::sim {

// What no size changes. Both levels, the search's estimate and the simulated actions, use all of it.
struct FixedRates {
  double overlap = 1;      // of communication beside compute: the part that costs nothing
  double launch_s = 0;     // of host time for one operation, beside the device's work
  double operation_s = 0;  // of device time between one kernel and the next (on a CPU: of one framework call)
  double noise = 0;        // how much longer the slowest of many equal devices takes, over their mean
  double host_bytes_per_s = 0;   // between device and host memory
  double peak_flops_per_s = 0;   // of a rank's device: what utilisation is a share of
};

// A level of the fabric as groups are cut by it, from the inside out.
struct UnitLevel {
  double devices = 0;   // in a unit; infinity for the last
  bool inside = false;  // of a node: no network card in between
};

// A segment as a rank meets it.
struct SegmentOfRank {
  std::string segment, layer, pass;  // "experts", of a layer "moe", in the pass "forward"
  double tokens = 0, experts = 0;    // of a micro-batch; of a layer
};

class Rates {
 public:
  enum class Kind { sheet, probed };
  virtual ~Rates() = default;

  // A matmul, attention or a pass over memory by itself, without launches and gaps.
  virtual double operator_s(const Operator& op) const = 0;
  // A pass over so many bytes in one call, read and written.
  virtual double memory_s(platform::MemoryUse use, double bytes) const = 0;
  // bytes as of Operator::message; exchanges are priced by their pattern on `fabric`.
  virtual double collective_s(CollectiveKind kind, const GroupPlace& group, double bytes) const = 0;
  // What messages of a group meet whose members are `stride` devices apart. ConfigError where a link is missing.
  virtual Fabric fabric(const plan::NodeShape& shape, double stride) const = 0;
  // Of a whole segment over the sum of its operators.
  virtual double segment_factor(const SegmentOfRank& of) const = 0;
  // How uneven the rows of so many tokens are by expert, standard deviation over mean; 0 where nobody measured it.
  virtual double load_cv(double tokens) const = 0;

  Kind kind() const { return kind_; }
  // An expert exchange of a group by a pattern of plan/all_to_all, tabulated when first asked for; kept as long as the rates.
  const ExchangeTable& exchange_table(const std::string& pattern, const GroupPlace& group, const RouterShape& router) const;

  const FixedRates& fixed() const { return fixed_; }
  const std::vector<UnitLevel>& units() const { return units_; }
  const UnitLevel& node() const;  // the last level inside of nodes
  // Where its members lie: as many to a node as fit into one and divide the group, in groups of nodes likewise.
  plan::NodeShape shape_of(const GroupPlace& group) const;
  bool leaves_node(const GroupPlace& group) const { return group.members_within(node().devices) < group.size; }

  const std::string& origin() const { return origin_; }             // "measured", "dgx_h100's data sheet"
  bool measured() const { return measured_; }                       // every curve used was
  const std::vector<std::string>& notes() const { return notes_; }  // what stands in for what is missing
  // Whether a flat exchange on one node is priced as the collective that it is there, by its own curve.
  bool has_node_all_to_all() const { return has_node_all_to_all_; }

 protected:
  explicit Rates(Kind kind) : kind_(kind) {}
  Kind kind_;
  FixedRates fixed_;
  std::vector<UnitLevel> units_;
  std::string origin_;
  bool measured_ = false, has_node_all_to_all_ = false;
  std::vector<std::string> notes_;

 private:
  struct TableKey {
    std::string pattern;
    double size, stride, runs, run_stride;
    RouterShape router;
    auto operator<=>(const TableKey&) const = default;
  };
  std::unique_ptr<const ExchangeTable> make_exchange_table(const std::string& pattern, const GroupPlace& group,
                                                           const RouterShape& router) const;
  mutable std::shared_mutex tables_mutex_;
  mutable std::map<TableKey, std::unique_ptr<const ExchangeTable>> tables_;
};

}  // namespace trireme::sim
