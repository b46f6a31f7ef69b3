// HALO. Phases: `local` (rows for the own node) beside `remote` (all rows for a node in one message to the member of
// the same local index there, so on the same network card) and then `redistribute` (inside the node, what remote
// brought): local || (remote -> redistribute). N - 1 messages off the node a member, whatever the sizes of the nodes.
// Three levels, where the shape has groups of nodes: `far` (all rows for a group in one message to one of its nodes),
// then `near` (inside the group: the own rows and those that far brought), then `redistribute`; G - 1 + (nodes of a
// group - 1) messages off the node, for rows that cross near links up to once more. Source: Piper (arXiv 2605.05049),
// sec. 3.3, phases I, II, III; the order of its levels is not published, this one is ours.
#pragma once
#include "plan/all_to_all/node_shape.h"
#include "plan/all_to_all/pattern.h"
#include "plan/all_to_all/senders.h"

namespace trireme::plan {

// Two levels, whatever groups the shape has.
Pattern halo(const NodeShape& shape, Senders senders = {});
// ConfigError (key layout.all_to_all) where the shape has no groups of nodes, or groups of unequal size.
Pattern halo3(const NodeShape& shape, Senders senders = {});

}  // namespace trireme::plan
