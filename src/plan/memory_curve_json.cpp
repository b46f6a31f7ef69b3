#include <nlohmann/json.hpp>

#include "plan/memory_curve.h"

namespace trireme::plan {

TRIREME_DEFINE_JSON(MemoryPoint, time_s, bytes)
TRIREME_DEFINE_JSON(MemoryPart, what, bytes)
TRIREME_DEFINE_JSON(MemoryCurve, points, peak_bytes, peak_time_s, peak_action, at_peak)

}  // namespace trireme::plan
