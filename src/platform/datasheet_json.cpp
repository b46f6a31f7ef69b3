#include <nlohmann/json.hpp>

#include "platform/datasheet.h"

namespace trireme::platform {

TRIREME_DEFINE_JSON(FormatPeak, format, flops_per_s)
TRIREME_DEFINE_JSON(FabricLevel, name, shape, devices, latency_s, bytes_per_s, devices_per_port, taper)
TRIREME_DEFINE_JSON(Datasheet, peaks, memory_bytes_per_s, host_link_bytes_per_s, host_memory_bytes, noise, levels)

}  // namespace trireme::platform
