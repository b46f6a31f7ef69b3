// Ranks that share the cores of their hosts, or devices of their own that compute slower beside messages: what runs slows
// down by what else runs, so time goes on from event to event. O(actions x lanes that are active at a time).
#pragma once
#include "plan/rendezvous.h"
#include "sim/action_lists.h"

namespace trireme::sim {

// Spans of each list, aligned with its actions. options.cores > 0 or options.overlap < 1. std::logic_error as simulate().
std::vector<std::vector<plan::Span>> run_on_shared_hosts(const plan::Mesh& mesh, const std::vector<ActionList>& lists,
                                                         const plan::Rendezvous& together,
                                                         const SimulateOptions& options);

}  // namespace trireme::sim
