// All-gather between nodes, all-to-all inside: every token goes to every node, wanted or not, to the member of the same
// local index, which keeps the rows that its node has experts for and hands them out. Combine: all-to-all-v inside the
// node, sums of every token's results there, then a reduce-scatter between nodes. Off-node rows do not depend on the
// routing: N - 1 a token, fewer than the flat k (N - 1) / N exactly when k > N. Each member's messages, N - 1, go
// straight to the other nodes (a ring moves as much). Source: Pangu Ultra MoE (arXiv 2505.04519), hierarchical EP
// all-to-all.
#pragma once
#include "plan/all_to_all/node_shape.h"
#include "plan/all_to_all/pattern.h"
#include "plan/all_to_all/senders.h"

namespace trireme::plan {

Pattern allgather_a2a(const NodeShape& shape, Senders senders = {});

}  // namespace trireme::plan
