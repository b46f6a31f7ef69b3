// The breakdown of a stage's memory at its peak, as rows of a table.
#pragma once
#include <string>
#include <vector>

#include "sim/estimate/memory.h"
#include "sim/estimate/memory_pieces.h"
#include "sim/estimate/memory_states.h"

namespace trireme::sim {

// Adds to the row of this name where there is one; 0 bytes add nothing.
void add_item(std::vector<MemoryItem>& items, const std::string& group, const std::string& name, double bytes,
              MemoryPlace place = MemoryPlace::device);
std::vector<MemoryItem> state_items(const StateBytes& states);
// Tensors of `micro_batches` micro-batches of a piece between forward and backward; `weight_bytes` of others wait for
// their weight gradients.
void add_activation_items(std::vector<MemoryItem>& items, LayerTable& table, const model::LayerRange& piece,
                          int micro_batches, double weight_bytes);

}  // namespace trireme::sim
