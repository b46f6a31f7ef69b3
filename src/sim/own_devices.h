// Ranks that share nothing: an action starts when its lane is free and its waits are done, and takes its length. Then no
// order of events has to be found; every action is looked at once, after what it needs. O(actions + waits).
#pragma once
#include "plan/rendezvous.h"
#include "sim/action_lists.h"

namespace trireme::sim {

// Spans of each list, aligned with its actions. std::logic_error as simulate().
std::vector<std::vector<plan::Span>> run_on_own_devices(const std::vector<ActionList>& lists,
                                                        const plan::Rendezvous& together);

}  // namespace trireme::sim
