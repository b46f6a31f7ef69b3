// Seconds of collectives by the algorithm that libraries run, on a machine's levels.
//
// Inside a unit of a level lie those members of a group that its place (plan/group_place.h) says. A ring enters
// and leaves each unit once, over the ports of all its members there: its pace is that of the slowest level. An
// all-to-all sends from every member to every other: each level carries its part, the levels work at the same time, and
// eight messages are under way at once (as plan::PatternOptions has it).
#pragma once
#include "sim/estimate/machine.h"
#include "plan/group_place.h"
#include "sim/estimate/described.h"

namespace trireme::sim {

using plan::GroupPlace;

// bytes as of Operator::message.
double ring_gather_s(const Machine& machine, const GroupPlace& group, double bytes);  // all-gather or reduce-scatter
double all_reduce_s(const Machine& machine, const GroupPlace& group, double bytes);
double all_to_all_s(const Machine& machine, const GroupPlace& group, double bytes);
double send_s(const Machine& machine, double distance, double bytes);  // between devices this far apart

// Members of a group in one unit of a level, and what one of them can send there while all do.
double members_of(const MachineLevel& level, const GroupPlace& group);
double bandwidth_of(const MachineLevel& level, const GroupPlace& group);
// Latency of messages to this many peers.
double latency_s(const MachineLevel& level, double peers);

}  // namespace trireme::sim
