#include <nlohmann/json.hpp>

#include "comm/link_probe.h"

namespace trireme::comm {

TRIREME_DEFINE_ENUM_JSON(LinkOperation, {{LinkOperation::message, "message"},
                                         {LinkOperation::all_reduce, "all_reduce"},
                                         {LinkOperation::all_to_all, "all_to_all"}})
TRIREME_DEFINE_JSON(LinkPoint, bytes, median_s, p99_s, max_s, samples)
TRIREME_DEFINE_JSON(LinkCurve, operation, members, points)

}  // namespace trireme::comm
