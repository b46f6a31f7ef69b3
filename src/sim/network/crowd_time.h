// How long an all-to-all takes where its links were measured while all ranks talk (Fabric::crowded): with what hosts
// add to the wires. A phase lasts as long as its busiest resource - a member's own work, its port on the node, its
// network card, a group's uplink as one link, each way - and one latency. Where the pattern bounds the messages under
// way, each later in_flight of them wait a turn more: for their own partners, while members that are ahead are in the
// next step; so does a phase of one message that comes after another. A member's phase starts when those that it is
// after have ended there and its senders have started theirs. Phases side by side share: a member's own work for one
// comes after that for those issued before, and so do its bytes on a wire. Gathering rows into messages and sorting
// those that came is a member's own work too.
#pragma once
#include "sim/network/pattern_time.h"

namespace trireme::sim {

// Members are folded onto the first `period`: those that the pattern has the transfers of.
PatternTime crowd_time(const plan::Pattern& pattern, const plan::NodeShape& shape, const Fabric& fabric,
                       const plan::RowCounts& counts, double row_bytes, int period);

}  // namespace trireme::sim
