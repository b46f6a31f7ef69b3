#include <nlohmann/json.hpp>

#include "sim/estimate/memory.h"

namespace trireme::sim {

TRIREME_DEFINE_ENUM_JSON(MemoryPlace, {{MemoryPlace::device, "device"}, {MemoryPlace::host, "host"}})
TRIREME_DEFINE_JSON(MemoryItem, group, name, bytes, place)
TRIREME_DEFINE_JSON(MemorySlot, peak_bytes, after_bytes)
TRIREME_DEFINE_JSON(StageMemory, stage, state_bytes, allocated_bytes, reserved_bytes, needed_bytes, host_bytes,
                    chunks_in_flight, layers_in_flight, peak_slot, peak, items, slots)
TRIREME_DEFINE_JSON(MemoryEstimate, stages, heaviest, capacity_bytes, host_capacity_bytes, cold_start_needed_bytes,
                    feasible, reasons)

}  // namespace trireme::sim
