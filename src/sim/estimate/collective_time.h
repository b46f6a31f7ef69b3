// Seconds of collectives by the algorithm that libraries run, on a machine's levels.
//
// A group is `size` ranks, `stride` devices apart. Inside a unit of a level lie devices / stride of them. A ring enters
// and leaves each unit once, over the ports of all its members there: its pace is that of the slowest level. An
// all-to-all sends from every member to every other: each level carries its part, the levels work at the same time.
#pragma once
#include "sim/estimate/machine.h"
#include "sim/estimate/work.h"

namespace trireme::sim {

struct GroupPlace {
  double size = 1, stride = 1;
};

// The ranks of an axis; world = pp x dp x cp x tp with tp innermost, experts over dp x cp x tp = edp x ep x etp.
GroupPlace place_of(const plan::LayoutSpec& layout, Axis axis);

// bytes as of Work::message.
double ring_gather_s(const Machine& machine, const GroupPlace& group, double bytes);  // all-gather or reduce-scatter
double all_reduce_s(const Machine& machine, const GroupPlace& group, double bytes);
double all_to_all_s(const Machine& machine, const GroupPlace& group, double bytes);
// Rows to `top_k` experts each, spread evenly over the group; a row travels once to each unit of the innermost level
// that needs it, and on inside (node-deduplicated dispatch). `max_units`: that a row may go to (group-limited routing).
double dedup_exchange_s(const Machine& machine, const GroupPlace& group, double bytes, double top_k, double max_units);
double send_s(const Machine& machine, double distance, double bytes);  // between devices this far apart

// Units out of `units` that get at least one of `top_k` even random choices.
double expected_units(double units, double top_k);

}  // namespace trireme::sim
