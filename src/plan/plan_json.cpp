#include <nlohmann/json.hpp>

#include "plan/plan.h"

namespace trireme::plan {

TRIREME_DEFINE_ENUM_JSON(Grain, {{Grain::segment, "segment"}, {Grain::chunk, "chunk"}})
TRIREME_DEFINE_JSON(BucketPart, layer, segment)
TRIREME_DEFINE_JSON(Bucket, expert, parts, elements)
TRIREME_DEFINE_JSON(StagePlan, chunks, buffers, buckets, actions)
TRIREME_DEFINE_JSON(ExchangeCosts, segment, backward, phases)
TRIREME_DEFINE_JSON_WITH_DEFAULT(StageCosts, action_s, action_workspace_bytes, buffer_bytes, constant_bytes, exchanges)
TRIREME_DEFINE_JSON(Costs, stages)

}  // namespace trireme::plan
