// Node deduplication: a token crosses to each node that needs it once, to the member of the same local index, and is
// passed on there, once to each member that needs it. Results of a token are summed by each member, then on the node,
// before they return, and then by the source; a member's own come first, then those of others in ascending order.
// Phases as HALO's, and N - 1 messages, a quarter of a member's under way at a time, two at least.
// Off-node rows fall from k (N-1)/N to N (1 - C(E - E/N, k) / C(E, k)) (N-1)/N a token with uniform routing to k of E
// experts. Source: DeepEP (normal dispatch); X-MoE (arXiv 2508.13337), sec. 4.2, redundancy-bypassing dispatch.
#pragma once
#include "plan/all_to_all/node_shape.h"
#include "plan/all_to_all/pattern.h"
#include "plan/all_to_all/senders.h"

namespace trireme::plan {

Pattern dedup(const NodeShape& shape, Senders senders = {});

}  // namespace trireme::plan
