#include <nlohmann/json.hpp>

#include "plan/timeline.h"

namespace trireme::plan {

TRIREME_DEFINE_JSON(Span, start_s, end_s)
TRIREME_DEFINE_JSON(PhaseSpan, action, part, phase, start_s, end_s)
TRIREME_DEFINE_JSON_WITH_DEFAULT(RankTimeline, rank, spans, phases, step_s, peak_memory_bytes)

}  // namespace trireme::plan
