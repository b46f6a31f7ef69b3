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
    return {.latency_s = link->latency_s, .message_s = link->message_s, .bytes_per_s = link->bytes_per_s};
  for (const platform::Link& link : platform.links) {
    if (link.level != level) continue;
    const auto largest = std::max_element(link.bytes.begin(), link.bytes.end()) - link.bytes.begin();
    return {.message_s = link.latency_s, .bytes_per_s = link.bytes_per_s[static_cast<std::size_t>(largest)]};
  }
  throw ConfigError(
      {.key = "link", .allowed = std::string("is missing for level ") + level + ", which this group uses"});
}

}  // namespace

Fabric fabric_of(const platform::PlatformSpec& platform, const plan::NodeShape& shape) {
  Fabric fabric;
  const auto& ranks = shape.ranks_of_node();
  if (*std::max_element(ranks.begin(), ranks.end()) > 1) fabric.node = wire_of(platform, "host", shape.size());
  if (shape.num_nodes() > 1) fabric.group = fabric.beyond = wire_of(platform, "network", shape.size());
  if (const platform::SharedLink* link = shared(platform, "network", shape.size())) fabric.cards_per_node = link->cards;
  return fabric;
}

}  // namespace trireme::sim
