#include "sim/network/fabric.h"

#include <algorithm>
#include <cmath>

#include "base/errors.h"

namespace trireme::sim {
namespace {

const platform::SharedLink* shared(const platform::PlatformSpec& platform, const char* level, int ranks) {
  const platform::SharedLink* best = nullptr;
  const auto away = [&](const platform::SharedLink& l) {
    return std::abs(std::log(double(l.nodes * l.ranks_per_node) / ranks));
  };
  for (const platform::SharedLink& link : platform.shared_links)
    if (link.level == level && (!best || away(link) < away(*best))) best = &link;
  return best;
}

Wire wire_of(const platform::PlatformSpec& platform, const char* level, int ranks) {
  if (const platform::SharedLink* link = shared(platform, level, ranks))
    return {.latency_s = link->latency_s,
            .message_s = link->message_s,
            .bytes_per_s = link->bytes_per_s,
            .wake_s = link->wake_s,
            .turn_s = link->turn_s < 0 ? link->latency_s : link->turn_s,
            .alone_bytes_per_s = link->alone_bytes_per_s,
            .partners = link->partners,
            .bucket_bytes = link->bucket_bytes,
            .own_latency = link->own_latency,
            .blend = link->blend};
  for (const platform::Link& link : platform.links) {
    if (link.level != level) continue;
    const auto largest = std::max_element(link.bytes.begin(), link.bytes.end()) - link.bytes.begin();
    return {.message_s = link.latency_s, .bytes_per_s = link.bytes_per_s[static_cast<std::size_t>(largest)]};
  }
  throw ConfigError(
      {.key = "link", .allowed = std::string("is missing for level ") + level + ", which this group uses"});
}

}  // namespace

double Wire::rate(int under_way) const {
  if (alone_bytes_per_s <= 0 || under_way >= partners) return bytes_per_s;
  if (under_way <= 1) return alone_bytes_per_s;
  return alone_bytes_per_s * std::pow(bytes_per_s / alone_bytes_per_s, std::log(under_way) / std::log(partners));
}

Fabric fabric_of(const platform::PlatformSpec& platform, const plan::NodeShape& shape) {
  Fabric fabric;
  const auto& ranks = shape.ranks_of_node();
  if (*std::max_element(ranks.begin(), ranks.end()) > 1) fabric.node = wire_of(platform, "host", shape.size());
  if (shape.num_nodes() > 1) fabric.group = fabric.beyond = wire_of(platform, "network", shape.size());
  if (const platform::SharedLink* link = shared(platform, "network", shape.size())) fabric.cards_per_node = link->cards;
  for (const char* level : {"network", "host"})
    if (const platform::SharedLink* link = shared(platform, level, shape.size()); link && link->copy_bytes_per_s > 0) {
      fabric.copy_bytes_per_s = link->copy_bytes_per_s;
      fabric.gather_s = link->gather_s;
    }
  return fabric;
}

Fabric fabric_of(const platform::Datasheet& sheet, const plan::NodeShape& shape, double message_s) {
  const auto& ranks = shape.ranks_of_node();
  const int of_node = *std::max_element(ranks.begin(), ranks.end());
  const int nodes = shape.nodes_per_group() > 0 ? shape.nodes_per_group() : shape.num_nodes();
  const auto level = [&](int index, const char* what) -> const platform::FabricLevel& {
    if (index < 0 || index >= static_cast<int>(sheet.levels.size()))
      throw ConfigError({.key = "datasheet.level", .allowed = std::string("has none for ") + what});
    return sheet.levels[static_cast<std::size_t>(index)];
  };
  const auto wire = [&](const platform::FabricLevel& l) {
    return Wire{.latency_s = l.latency_s, .message_s = message_s, .bytes_per_s = l.bytes_per_s};
  };
  Fabric fabric;
  const int inner = sheet.level_of(of_node);
  fabric.node = wire(level(inner, "a node"));
  if (shape.num_nodes() == 1) return fabric;
  const int middle = std::max(inner + 1, sheet.level_of(of_node * nodes));
  const platform::FabricLevel& group = level(middle, "a group of nodes");
  fabric.group = fabric.beyond = wire(group);
  fabric.cards_per_node = std::max(1, of_node / group.devices_per_port);
  if (shape.num_groups() == 1) return fabric;
  const platform::FabricLevel& beyond = level(middle + 1, "groups of nodes");
  fabric.beyond = wire(beyond);
  fabric.uplink_bytes_per_s = beyond.taper * beyond.bytes_per_s * fabric.cards_per_node * nodes;
  return fabric;
}

}  // namespace trireme::sim
