#include "network.h"

#include <algorithm>
#include <string>
#include <unordered_set>

#include <simgrid/kernel/resource/NetworkModelIntf.hpp>

#include "base/errors.h"

namespace trireme::simgrid_bench {
namespace {

namespace sg = simgrid::s4u;
using Policy = sg::Link::SharingPolicy;

constexpr double tick_s = 1e-6;

double node_bytes_per_s(const sim::Fabric& f) {
  return f.group.bytes_per_s * f.cards_per_node;
}

// The most nodes that may share a switch: a dragonfly's group needs at least as many switches as there are groups, for
// the link to group g starts at switch g.
int nodes_per_switch(const plan::NodeShape& shape) {
  const int nodes = shape.num_groups() > 1 ? shape.nodes_per_group() : shape.num_nodes();
  for (int n = std::min(4, nodes); n > 1; --n)
    if (nodes % n == 0 && nodes / n >= shape.num_groups()) return n;
  return 1;
}

class Nodes {
 public:
  Nodes(const sim::Fabric& fabric, const plan::NodeShape& shape, std::vector<sg::Host*>& hosts)
      : fabric_(fabric), shape_(shape), hosts_(hosts) {}

  std::pair<simgrid::kernel::routing::NetPoint*, simgrid::kernel::routing::NetPoint*> make(sg::NetZone* parent,
                                                                                           int node) {
    const std::string name = "node" + std::to_string(node);
    sg::NetZone* zone = sg::create_full_zone(name);
    zone->set_parent(parent);
    auto* gateway = zone->create_router(name + "_gateway");
    const auto cards = std::min(fabric_.cards_per_node, shape_.ranks(node));
    std::vector<const sg::Link*> card_out, card_in, port_out, port_in;
    const auto link = [&](const std::string& what, int i, double bytes_per_s, double latency_s) {
      return zone->create_link(name + what + std::to_string(i), bytes_per_s)->set_latency(latency_s)->seal();
    };
    for (int c = 0; c < cards; ++c) {
      card_out.push_back(link("_card_out", c, fabric_.group.bytes_per_s, tick_s));
      card_in.push_back(link("_card_in", c, fabric_.group.bytes_per_s, 0));
    }
    for (int l = 0; l < shape_.ranks(node); ++l) {
      port_out.push_back(link("_port_out", l, fabric_.node.bytes_per_s, tick_s));
      port_in.push_back(link("_port_in", l, fabric_.node.bytes_per_s, 0));
    }
    const auto at = [](const std::vector<const sg::Link*>& v, int i) {
      return sg::LinkInRoute(v[static_cast<std::size_t>(i)]);
    };
    for (int l = 0; l < shape_.ranks(node); ++l)
      hosts_[static_cast<std::size_t>(shape_.first(node) + l)] =
          zone->create_host("member" + std::to_string(shape_.first(node) + l), 1e9)->seal();
    for (int l = 0; l < shape_.ranks(node); ++l) {
      auto* me = host(node, l)->get_netpoint();
      const int card = l * cards / shape_.ranks(node);
      zone->add_route(me, gateway, nullptr, nullptr, {at(card_out, card)}, false);
      zone->add_route(gateway, me, nullptr, nullptr, {at(card_in, card)}, false);
      for (int other = 0; other < shape_.ranks(node); ++other)
        if (other != l)
          zone->add_route(me, host(node, other)->get_netpoint(), nullptr, nullptr,
                          {at(port_out, l), at(port_in, other)}, false);
    }
    zone->seal();
    return {zone->get_netpoint(), gateway};
  }

 private:
  sg::Host* host(int node, int local) const { return hosts_[static_cast<std::size_t>(shape_.first(node) + local)]; }
  const sim::Fabric& fabric_;
  const plan::NodeShape& shape_;
  std::vector<sg::Host*>& hosts_;
};

}  // namespace

std::unique_ptr<sg::Engine> make_engine() {
  std::vector<std::string> arguments{"simgrid",
                                     "--log=root.thresh:warning",
                                     "--cfg=network/model:CM02",
                                     "--cfg=network/TCP-gamma:0",
                                     "--cfg=network/crosstraffic:0",
                                     "--cfg=network/weight-S:0",
                                     "--cfg=maxmin/precision:1e-4",
                                     "--cfg=contexts/stack-size:64",
                                     "--cfg=contexts/guard-size:0"};
  std::vector<char*> pointers;
  for (std::string& a : arguments) pointers.push_back(a.data());
  int count = static_cast<int>(pointers.size());
  pointers.push_back(nullptr);
  return std::make_unique<sg::Engine>(&count, pointers.data());
}

sim::Fabric with_trunks(sim::Fabric f, const plan::NodeShape& shape, Topology topology) {
  if (shape.num_groups() == 1) return f;
  if (topology == Topology::dragonfly) {
    f.trunks = sim::Trunks::by_group;
    return f;
  }
  f.trunks = sim::Trunks::by_destination;
  f.num_trunks = std::max(1, static_cast<int>(f.uplink_bytes_per_s / node_bytes_per_s(f) + 0.5));
  f.uplink_bytes_per_s = f.num_trunks * node_bytes_per_s(f);
  return f;
}

std::vector<sg::Host*> make_network(const sim::Fabric& fabric, const plan::NodeShape& shape, Topology topology) {
  if (!shape.is_even())
    throw ConfigError({.key = "ranks", .value = to_text(shape), .allowed = "as many on each node, and in each group"});
  const int groups = shape.num_groups(), nodes = shape.num_nodes() / groups;
  if (topology == Topology::dragonfly && groups > nodes)
    throw ConfigError(
        {.key = "nodes-per-group", .value = std::to_string(nodes), .allowed = "at least the number of groups"});
  std::vector<sg::Host*> hosts(static_cast<std::size_t>(shape.size()));
  auto builder = std::make_shared<Nodes>(fabric, shape, hosts);
  const sg::ClusterCallbacks leaves([builder](sg::NetZone* zone, const std::vector<unsigned long>&, unsigned long id) {
    return builder->make(zone, static_cast<int>(id));
  });
  const auto number = [](int i) { return static_cast<unsigned int>(i); };
  sg::NetZone* zone = nullptr;
  if (topology == Topology::dragonfly) {
    const int of_switch = nodes_per_switch(shape);
    // All links of the zone are as wide as one from group to group, and so no narrower than a node's cards: inside a
    // group nothing but the cards limits, as the data sheet's taper of 1 says.
    const double trunk = groups > 1 ? fabric.uplink_bytes_per_s / (groups - 1) : node_bytes_per_s(fabric);
    const int widen = trunk < node_bytes_per_s(fabric) ? 0 : 1;
    if (!widen)
      throw ConfigError({.key = "nodes-per-group",
                         .value = std::to_string(nodes),
                         .allowed = "more: a link between groups is narrower than a node's cards"});
    zone = sg::create_dragonfly_zone(
        "fabric", nullptr,
        sg::DragonflyParams({number(groups), 1}, {1, 1}, {number(nodes / of_switch), number(of_switch)},
                            number(of_switch)),
        leaves, trunk, 0, Policy::SPLITDUPLEX);
  } else if (groups == 1) {
    zone = sg::create_fatTree_zone("fabric", nullptr, sg::FatTreeParams(1, {number(nodes)}, {1}, {1}), leaves,
                                   node_bytes_per_s(fabric), 0, Policy::SPLITDUPLEX);
  } else {
    zone = sg::create_fatTree_zone(
        "fabric", nullptr,
        sg::FatTreeParams(2, {number(nodes), number(groups)}, {1, number(fabric.num_trunks)}, {1, 1}), leaves,
        node_bytes_per_s(fabric), 0, Policy::SPLITDUPLEX);
  }
  zone->get_network_model()->set_lat_factor_cb([&fabric, &shape](double, const sg::Host* from, const sg::Host* to,
                                                                 const std::vector<sg::Link*>&,
                                                                 const std::unordered_set<sg::NetZone*>&) {
    const auto member = [](const sg::Host* h) { return std::stoi(h->get_name().substr(6)); };
    return fabric.wire(shape.reach(member(from), member(to))).latency_s / tick_s;
  });
  zone->seal();
  return hosts;
}

}  // namespace trireme::simgrid_bench
