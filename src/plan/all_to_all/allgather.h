// All-gather: every token goes to every member, wanted or not, which takes what its experts need; what they make of a token
// is summed and scattered back (the transpose). Off the node a token crosses once to each other node, to the member of the
// same local index, and is passed on there: N - 1 a token between nodes and g - 1 for each of them inside. Two phases side
// by side, `local || (remote -> pass on)`, as deduplication's, whatever the routing. Source: Megatron-LM, MoEAllGatherTokenDispatcher.
#pragma once
#include "plan/all_to_all/node_shape.h"
#include "plan/all_to_all/pattern.h"
#include "plan/all_to_all/senders.h"

namespace trireme::plan {

Pattern allgather(const NodeShape& shape, Senders senders = {});

}  // namespace trireme::plan
