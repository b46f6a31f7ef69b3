#include "sim/rates/rates.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>

#include "plan/all_to_all/row_counts.h"
#include "sim/network/pattern_time.h"

namespace trireme::sim {

namespace {

// The largest divisor of `size` that is not above `most`.
int divisor_within(int size, double most) {
  int best = std::clamp(static_cast<int>(std::min(most, 1e9)), 1, size);
  while (size % best != 0) --best;
  return best;
}

}  // namespace

const UnitLevel& Rates::node() const {
  std::size_t level = 0;
  while (level + 1 < units_.size() && units_[level + 1].inside) ++level;
  return units_.at(level);
}

plan::NodeShape Rates::shape_of(const GroupPlace& group) const {
  const int size = static_cast<int>(group.size), members = divisor_within(size, group.members_within(node().devices));
  const int nodes = size / members;
  // Groups of nodes: of the level after the node, where there is one further out.
  const std::size_t level = static_cast<std::size_t>(&node() - units_.data()) + 1;
  if (nodes == 1 || level + 1 >= units_.size()) return plan::NodeShape::even(size, members);
  const int of_group = divisor_within(nodes, group.members_within(units_[level].devices) / members);
  return plan::NodeShape::even(size, members, of_group < nodes ? of_group : 0);
}

const ExchangeTable& Rates::exchange_table(const std::string& pattern, const GroupPlace& group,
                                           const RouterShape& router) const {
  TableKey key{pattern, group.size, group.stride, group.runs, group.run_stride, router};
  {
    const std::shared_lock lock(tables_mutex_);
    if (const auto at = tables_.find(key); at != tables_.end()) return *at->second;
  }
  auto made = make_exchange_table(pattern, group, router);
  const std::unique_lock lock(tables_mutex_);
  return *tables_.try_emplace(std::move(key), std::move(made)).first->second;
}

std::unique_ptr<const ExchangeTable> Rates::make_exchange_table(const std::string& pattern, const GroupPlace& group,
                                                                const RouterShape& router) const {
  if (group.size <= 1) return std::make_unique<ExchangeTable>();
  if (pattern == "flat" && has_node_all_to_all_ && !leaves_node(group))
    return std::make_unique<ExchangeTable>([this, group](double bytes) {
      const double seconds = collective_s(CollectiveKind::all_to_all, group, bytes);
      return ExchangeTime{.alone_s = seconds, .inside_s = seconds};
    });
  const plan::NodeShape shape = shape_of(group);
  Fabric on = fabric(shape, group.stride);
  on.streamed = kind_ == Kind::sheet && (pattern == "dedup" || pattern == "allgather");
  const plan::UniformRouting routing(shape.size(), 1, router.experts, router.top_k, router.groups, router.chosen_groups);
  const auto followed = std::make_shared<const BalancedPattern>(pattern, shape, on, routing);
  return std::make_unique<ExchangeTable>([followed, top_k = router.top_k](double bytes) {
    const PatternTime t = followed->at(bytes / top_k);
    return ExchangeTime{.alone_s = t.seconds, .outside_s = t.outside_s, .inside_s = t.inside_s};
  });
}

}  // namespace trireme::sim
