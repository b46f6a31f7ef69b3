// Device memory of a setting: what the heaviest rank of each pipeline stage holds, over the slots of its schedule.
//
// Of a stage, all ranks hold the same but for routed rows: the estimate is of the rank with the most. Stages are never
// averaged. Within a stage the level after each slot is exact for its grid: every chunk's micro-batches between forward
// and backward (or weight gradient) with what survives recomputation and swapping, and in each slot the worst moment of
// its forward or backward, operator by operator (model/description/tape.h).
//
// `allocated` is what a framework's allocator has given out at its highest (torch: max_memory_allocated), `reserved`
// with what it lost to fragmentation, `needed` with what lies outside of it: contexts and communicators.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "plan/pipeline/schedule.h"
#include "model/kernels.h"
#include "sim/estimate/setting.h"

namespace trireme::sim {

enum class MemoryPlace { device, host };
TRIREME_JSON(MemoryPlace)

struct MemoryItem {
  std::string group;  // state | activations | working | buffers | overhead | fragmentation
  std::string name;   // "gradients"; "experts' gated" (of all layers and micro-batches in flight)
  double bytes = 0;
  MemoryPlace place = MemoryPlace::device;
  bool operator==(const MemoryItem&) const = default;
};
TRIREME_JSON(MemoryItem)

// The level of one slot of the stage's row.
struct MemorySlot {
  double peak_bytes = 0;   // while it runs
  double after_bytes = 0;  // when it has ended
  bool operator==(const MemorySlot&) const = default;
};
TRIREME_JSON(MemorySlot)

struct StageMemory {
  int stage = 0;
  double state_bytes = 0;      // parameters, gradients, master weights, moments
  double allocated_bytes = 0;  // at the peak
  double reserved_bytes = 0;
  double needed_bytes = 0;
  double host_bytes = 0;          // of a rank, swapped out
  int chunks_in_flight = 0;       // at the peak: micro-batches of all chunks
  int layers_in_flight = 0;       // the same by layer: a chunk counts its layers
  int peak_slot = -1;             // of the row; -1: there are none
  std::string peak;               // "backward of micro-batch 0, chunk 1: layer 12, experts' second matmul"
  std::vector<MemoryItem> items;  // at the peak; those on the device sum to needed_bytes
  std::vector<MemorySlot> slots;  // where asked for: along the row
  bool operator==(const StageMemory&) const = default;
};
TRIREME_JSON(StageMemory)

struct MemoryEstimate {
  std::vector<StageMemory> stages;
  int heaviest = 0;                    // stage with the highest needed_bytes
  double capacity_bytes = 0;           // of a device; 0: not asked
  double host_capacity_bytes = 0;      // for a rank; 0: not asked
  double cold_start_needed_bytes = 0;  // of the heaviest stage while routing is not balanced yet; 0: not asked
  bool feasible = true;
  std::vector<std::string> reasons;  // why not: "stage 0 needs 94.0 GB of 64.0: ..."
  bool operator==(const MemoryEstimate&) const = default;

  double allocated_bytes() const { return stages.empty() ? 0 : stages[heaviest].allocated_bytes; }
  double reserved_bytes() const { return stages.empty() ? 0 : stages[heaviest].reserved_bytes; }
  double needed_bytes() const { return stages.empty() ? 0 : stages[heaviest].needed_bytes; }
};
TRIREME_JSON(MemoryEstimate)

struct MemoryOptions {
  double capacity_bytes = 0;
  double host_capacity_bytes = 0;
  bool items = true;   // the breakdown
  bool slots = false;  // the curve
};

// The schedule's stages are the layout's pp, its pieces pp * virtual_stages (fewer where chunks are empty).
MemoryEstimate estimate_memory(const Setting& setting, const plan::Schedule& schedule,
                               const model::Kernels& kernels, const MemoryOptions& options = {});

// Bytes that the heaviest stage needs at least, without the schedule's grid: never above estimate_memory's needed_bytes
// for the schedule that the layout names (exact for gpipe and 1f1b). No memory is allocated; microseconds.
double memory_lower_bound(const Setting& setting, const model::Kernels& kernels);

}  // namespace trireme::sim
