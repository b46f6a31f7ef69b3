// Seconds of an expert exchange by its pattern (plan/all_to_all), on a machine's levels: rows of every rank to experts
// spread evenly over the group.
//
// A node is a unit of the last level that lies inside one; g members of the group are in it, in N nodes. `bytes` is
// what a rank's rows are, top_k copies of each token.
// - flat: each row to its rank; both kinds of links at the same time.
// - halo: rows for the own node inside, beside all rows for other nodes between counterparts, which hand them out
// inside
//   (Piper, arXiv 2605.05049): as many bytes outside as flat in N - 1 messages instead of (N - 1) g.
// - allgather_a2a: every token once to every other node, then rows inside the node (Pangu Ultra MoE, arXiv 2505.04519).
// - dedup: a token once to each node that has an expert of its, then inside.
// A group in one node is flat with all of them.
#pragma once
#include <string>

#include "sim/estimate/collective_time.h"

namespace trireme::sim {

// By itself, and for how long it keeps the links outside and inside of nodes busy: exchanges of two micro-batches
// side by side share these.
struct ExchangeTime {
  double alone_s = 0, outside_s = 0, inside_s = 0;
};

struct Rows {
  double bytes = 0;      // that a rank sends
  double top_k = 1;      // copies of each token among them
  double experts = 1;    // that they are chosen from
  double max_nodes = 0;  // that the copies of a token may go to (group-limited routing); 0: no limit
};

// `pattern`: flat, halo, allgather_a2a or dedup (std::logic_error for another).
ExchangeTime exchange_time(const std::string& pattern, const Machine& machine, const GroupPlace& group,
                           const Rows& rows);

// Units out of `units` that get at least one of `top_k` even random choices.
double expected_units(double units, double top_k);

}  // namespace trireme::sim
