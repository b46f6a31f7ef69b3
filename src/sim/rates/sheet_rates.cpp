#include "sim/rates/sheet_rates.h"

#include <algorithm>
#include <cmath>

#include "base/errors.h"

namespace trireme::sim {

namespace {
constexpr double in_flight = 8;
}  // namespace

SheetRates::SheetRates(const Machine& m) : Rates(Kind::sheet), machine_(m) {
  fixed_ = {.overlap = m.overlap,
            .launch_s = m.launch_s,
            .operation_s = m.operation_s,
            .noise = m.noise,
            .host_bytes_per_s = m.host_bytes,
            .peak_flops_per_s = m.peak};
  for (int i = 0; i < m.num_levels; ++i) {
    const MachineLevel& level = m.levels[static_cast<std::size_t>(i)];
    units_.push_back({.devices = level.devices, .inside = level.inside});
  }
  origin_ = "data sheet";
}

SheetRates::SheetRates(const platform::PlatformSpec& platform, const platform::DeviceEfficiency& device,
                       const platform::StackBehaviour& stack, ComputeFormat compute)
    : SheetRates(make_machine(platform, device, stack, compute)) {
  if (!(machine_.flops_16 > 0))
    throw ConfigError({.file = platform.name,
                       .key = "datasheet.peak",
                       .value = name_of(compute),
                       .allowed = "has no peak of this format, nor of a wider one"});
  origin_ = platform.name + "'s data sheet";
}

double SheetRates::collective_s(CollectiveKind kind, const GroupPlace& group, double bytes) const {
  switch (kind) {
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
      return ring_gather_s(machine_, group, bytes);
    case CollectiveKind::all_reduce:
      return all_reduce_s(machine_, group, bytes);
    case CollectiveKind::all_to_all:
      return all_to_all_s(machine_, group, bytes);
    case CollectiveKind::send:
      return send_s(machine_, group.stride, bytes);
    case CollectiveKind::exchange:
      break;
  }
  TRIREME_CHECK(false, "an exchange without its pattern");
  return 0;
}

Fabric SheetRates::fabric(const plan::NodeShape& shape, double stride) const {
  const Machine& m = machine_;
  const auto& ranks = shape.ranks_of_node();
  const double members = *std::max_element(ranks.begin(), ranks.end());
  const GroupPlace on_node{members, stride};
  const int node = static_cast<int>(&this->node() - units().data());  // the levels of machine and rates are the same
  Fabric out;
  // Levels inside of a node work at the same time, each for what leaves the one before: as one port, with rows to all
  // members alike.
  double before = 1, slowest = 0;
  for (int i = 0; i <= node && before < members; ++i) {
    const MachineLevel& level = m.levels[static_cast<std::size_t>(i)];
    const double here = i == node ? members : members_of(level, on_node);
    if (here <= before) continue;
    slowest = std::max(slowest, (members - before) / bandwidth_of(level, on_node));
    before = here;
  }
  const double latency = m.levels[0].latency_s;
  out.node = {.latency_s = latency,
              .message_s = members > 2 ? latency * (std::log2(members) - 1) / (members - 1) : 0,
              .bytes_per_s = members > 1 ? (members - 1) / slowest : m.levels[0].bytes_per_s};
  if (shape.num_nodes() == 1) return out;
  const auto outside = [&](int level) -> const MachineLevel& {
    if (level >= m.num_levels)
      throw ConfigError({.key = "datasheet.level", .allowed = "has none outside of a node, which this group needs"});
    return m.levels[static_cast<std::size_t>(level)];
  };
  const auto wire = [](const MachineLevel& l) {
    return Wire{.latency_s = l.latency_s, .message_s = l.latency_s / in_flight, .bytes_per_s = l.bytes_per_s};
  };
  out.cards_per_node = static_cast<int>(members);
  out.group = out.beyond = wire(outside(node + 1));
  if (shape.num_groups() == 1) return out;
  const MachineLevel& beyond = outside(node + 2);
  out.beyond = wire(beyond);
  out.uplink_bytes_per_s = beyond.bytes_per_s * members * shape.nodes_per_group();
  return out;
}

}  // namespace trireme::sim
