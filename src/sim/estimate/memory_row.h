// A stage's row of the schedule, slot by slot: what its micro-batches hold, and where that is most.
#pragma once
#include <vector>

#include "plan/pipeline/schedule.h"
#include "sim/estimate/memory.h"
#include "sim/estimate/memory_pieces.h"

namespace trireme::sim {

struct MemoryChunk {
  model::LayerRange piece;
  PieceMemory memory;
  bool empty = false;
};

struct MemoryRow {
  const std::vector<MemoryChunk>& chunks;
  const std::vector<plan::Slot>& row;
  double stream = 0;  // a gradient between stages that stays (Kernels::last_gradients_stay)
  bool first_stage = true, last_stage = true;

  // Filled in by run(). Bytes beside the stage's constants.
  double level = 0, peak = 0, peak_level = 0;  // peak_level: when the peak's slot starts
  double host = 0, host_peak = 0;
  int peak_slot = -1;
  std::vector<int> in_flight, weights_due;            // by chunk
  std::vector<int> peak_in_flight, peak_weights_due;  // when the peak's slot starts
  std::vector<MemorySlot> slots;                      // where asked for

  void run(bool keep_slots);
  // Whether the peak's slot runs a forward of this chunk.
  bool running_forward(std::size_t chunk) const;

  bool backward_seen = false;
  void end(const plan::Slot& slot);
};

}  // namespace trireme::sim
