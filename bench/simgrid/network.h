// A sim::Fabric as a SimGrid platform, so that both price the same wires: devices are hosts, a node a zone of them with
// its ports and network cards, and nodes the leaves of a Dragonfly or a FatTree zone.
//
// SimGrid's model is CM02 (fluid flows, max-min shares) without what it has for TCP over Ethernet: no factors on
// latency and bandwidth, no window (TCP-gamma 0), no acknowledgements that take bandwidth (crosstraffic off), and equal
// shares. CM02 weighs a flow's share by one over its latency; so every route has one tick of latency, and a factor
// makes of it what the message has to wait.
#pragma once
#include <memory>
#include <vector>

#include <simgrid/s4u.hpp>

#include "plan/all_to_all/node_shape.h"
#include "sim/network/fabric.h"

namespace trireme::simgrid_bench {

// With that model chosen; quiet.
std::unique_ptr<simgrid::s4u::Engine> make_engine();

enum class Topology { dragonfly, fat_tree };

// What the topology makes of a fabric's uplinks: a dragonfly has minimal routes, a fat tree as many spines as whole
// cards' worths of nodes fit in the uplink (so that the uplink is rounded to that).
sim::Fabric with_trunks(sim::Fabric fabric, const plan::NodeShape& shape, Topology topology);

// Host i is member i. One a process: SimGrid has one engine. `fabric` and `shape` must outlive it. The shape must be
// even; a dragonfly has at most as many groups as a group has nodes. ConfigError otherwise.
std::vector<simgrid::s4u::Host*> make_network(const sim::Fabric& fabric, const plan::NodeShape& shape,
                                              Topology topology);

}  // namespace trireme::simgrid_bench
