// The network that patterns are priced on: what a message costs on the node, off it and beyond the group of nodes, and
// which members share a network card.
#pragma once
#include "base/units.h"
#include "plan/all_to_all/node_shape.h"
#include "platform/platform_spec.h"

namespace trireme::sim {

// Measured while all members talk: what processors they share is in it.
struct Wire {
  double latency_s = 0;    // from the first of a batch of messages to its arrival: paid once for all that are under way
  double message_s = 0;    // of the member's own time for each message that it sends or receives
  double bytes_per_s = 1;  // on the node: of each member's port; off it: of a card. Each way
  double wake_s = 0;       // more of the member's own time for a message where few may be under way
  double turn_s = 0;       // waited for a partner before more may be under way
  // Measured while all talk; 0 where nothing of the kind is known.
  double alone_bytes_per_s = 0;  // where a member has one message under way; bytes_per_s: as many as `partners`, or more
  int partners = 1;
  double bucket_bytes = 0;  // that pass at once where the link was idle before
  double own_latency = 0;   // part of the latency that is the member's own work, so that phases side by side add it up
  double blend = 0;         // p: a member's work w and the wires' v take (w^p + v^p)^(1/p); 0: the longer of both
  // Of members with so many messages under way: between both rates by the logarithm.
  double rate(int under_way) const;
  bool operator==(const Wire&) const = default;
};

// How what leaves a group of nodes is spread over the links that make its uplink, equally wide ones.
enum class Trunks {
  together,        // as one link: adaptive routes
  by_group,        // a link to each other group: minimal routes of a dragonfly
  by_destination,  // num_trunks links to as many spine switches, by the destination's node: d-mod-k of a fat tree
};

struct Fabric {
  Wire node, group, beyond;       // by plan::Reach
  double copy_bytes_per_s = 0;    // of a member that gathers rows into messages or sorts those that came; 0: takes no time
  double gather_s = 0;            // of a member, for each message of rows that are picked by token
  int cards_per_node = 1;         // network cards; a node's members are spread over them in order
  double uplink_bytes_per_s = 0;  // of all that leaves a group of nodes, each way; 0: no limit of its own
  Trunks trunks = Trunks::together;
  int num_trunks = 1;  // of by_destination
  // Phases hand rows on as they come, in pieces, as one kernel's (DeepEP) or a ring's do: none waits for the one before.
  bool streamed = false;
  // Measured while all talk, with what hosts add to the wires: priced by crowd_time.
  bool crowded() const { return node.alone_bytes_per_s > 0 || group.alone_bytes_per_s > 0; }
  const Wire& wire(plan::Reach reach) const {
    return reach == plan::Reach::node ? node : reach == plan::Reach::group ? group : beyond;
  }
  bool operator==(const Fabric&) const = default;
};

// From a platform: level "host" is the node, "network" all beyond it. What was measured while all talk comes first (of
// the nearest number of ranks), else a link alone with the bandwidth of its largest message, each message of a member
// behind the one before. ConfigError where a level that the shape needs has neither.
Fabric fabric_of(const platform::PlatformSpec& platform, const plan::NodeShape& shape);

// From a data sheet. A node, a group and all beyond are its levels whose units hold as many devices as a node and a
// group of the shape have; beyond is a level further out, and its taper makes the uplink. Data sheets give no time for
// a message of a member's own: `message_s`. ConfigError where there are too few levels.
Fabric fabric_of(const platform::Datasheet& sheet, const plan::NodeShape& shape, double message_s);

}  // namespace trireme::sim
