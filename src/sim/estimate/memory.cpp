#include "sim/estimate/memory.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/errors.h"
#include "plan/pieces.h"
#include "sim/estimate/expert_load.h"
#include "sim/estimate/memory_items.h"
#include "sim/estimate/memory_pieces.h"
#include "sim/estimate/memory_row.h"
#include "sim/estimate/stage_memory.h"

namespace trireme::sim {

namespace {

using plan::Slot;
using plan::SlotKind;

const char* word(SlotKind kind) {
  switch (kind) {
    case SlotKind::forward:
      return "forward";
    case SlotKind::backward:
      return "backward";
    case SlotKind::input_gradient:
      return "input gradient";
    case SlotKind::weight_gradient:
      return "weight gradient";
    case SlotKind::no_op:
      break;
  }
  return "no-op";
}

std::string describe(const MemoryChunk& chunk, const Slot& slot) {
  const PieceMemory& m = chunk.memory;
  const bool forward = slot.kind == SlotKind::forward, inputs = slot.kind == SlotKind::input_gradient;
  const int layer = forward ? m.forward_layer : inputs ? m.input_layer : m.backward_layer;
  const char* at = forward ? m.forward_at : inputs ? m.input_at : m.backward_at;
  std::string out = fmt::format("{} of micro-batch {}, chunk {}", word(slot.kind), slot.mb, slot.chunk);
  if (slot.kind == SlotKind::weight_gradient) return out;
  return out + (layer >= 0 ? fmt::format(": layer {}, {}", layer, at) : fmt::format(": {}", at));
}

double gigabytes(double bytes) {
  return bytes / 1e9;
}

std::string reason_of(const StageMemory& s, double capacity) {
  const double activations = s.allocated_bytes - s.state_bytes;
  return fmt::format(
      "stage {} needs {:.1f} GB of {:.1f}: states {:.1f} GB, activations and buffers {:.1f} GB ({} chunk{}, {} layers "
      "in flight)",
      s.stage, gigabytes(s.needed_bytes), gigabytes(capacity), gigabytes(s.state_bytes), gigabytes(activations),
      s.chunks_in_flight, s.chunks_in_flight == 1 ? "" : "s", s.layers_in_flight);
}

struct StageChunks {
  std::vector<MemoryChunk> chunks;
  StateBytes states;
  double stream = 0;
};

StageChunks stage_chunks(LayerTable& table, WeightTable& weights, const plan::Schedule& schedule, int stage) {
  StageChunks out{.chunks = std::vector<MemoryChunk>(schedule.num_chunks)};
  std::vector<model::LayerRange> pieces;
  for (int c = 0; c < schedule.num_chunks; ++c) {
    const int piece = plan::piece_of(schedule, stage, c);
    if (piece < 0) {
      out.chunks[c].empty = true;
      continue;
    }
    out.chunks[c].piece = plan::layers_of_piece(table.setting.layout, table.setting.model.num_layers, piece);
    out.chunks[c].memory = piece_memory(table, out.chunks[c].piece);
    pieces.push_back(out.chunks[c].piece);
  }
  out.states = state_bytes(weights, pieces.data(), static_cast<int>(pieces.size()), true);
  out.stream = table.kernels.last_gradients_stay ? table.stream_bytes() : 0;
  return out;
}

StageMemory stage_memory(LayerTable& table, WeightTable& weights, const plan::Schedule& schedule, int stage,
                         const MemoryOptions& options) {
  const Setting& setting = table.setting;
  const model::Kernels& kernels = table.kernels;
  const auto [chunks, states, stream] = stage_chunks(table, weights, schedule, stage);

  MemoryRow walk{.chunks = chunks,
                 .row = schedule.rows.at(stage),
                 .stream = stream,
                 .first_stage = stage == 0,
                 .last_stage = stage == schedule.num_stages - 1};
  walk.run(options.slots);

  StageMemory out;
  out.stage = stage;
  out.state_bytes = states.held();
  const double constant = states.total();
  const bool step = states.step > walk.peak;
  out.allocated_bytes = constant + std::max(walk.peak, states.step);
  out.reserved_bytes = out.allocated_bytes * (1 + kernels.fragmentation);
  const OutsideBytes outside = outside_bytes(setting, kernels);
  out.needed_bytes = out.reserved_bytes + outside.total();
  out.host_bytes = states.host + walk.host_peak;
  out.peak_slot = step ? -1 : walk.peak_slot;
  if (step || walk.peak_slot < 0) {
    out.peak = "optimizer step";
  } else {
    const Slot& slot = walk.row[walk.peak_slot];
    out.peak = describe(chunks[slot.chunk], slot);
    if (slot.joined && walk.peak_slot + 1 < static_cast<int>(walk.row.size())) {
      const Slot& other = walk.row[walk.peak_slot + 1];
      out.peak += " + " + describe(chunks[other.chunk], other);
    }
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      const int count = walk.peak_in_flight[c] + (walk.running_forward(c) ? 1 : 0);
      out.chunks_in_flight += count;
      out.layers_in_flight += count * chunks[c].piece.num_layers;
    }
  }
  if (options.slots) {
    out.slots = std::move(walk.slots);
    for (MemorySlot& s : out.slots) s.peak_bytes += constant, s.after_bytes += constant;
  }
  if (options.items) {
    out.items = state_items(states);
    double working = step ? states.step : walk.peak - walk.peak_level;
    if (!step)
      for (std::size_t c = 0; c < chunks.size(); ++c) {
        if (chunks[c].empty) continue;
        const PieceMemory& m = chunks[c].memory;
        int count = walk.peak_in_flight[c];
        // What a forward at its worst moment has kept of its micro-batch, where that is all of it.
        if (walk.running_forward(c) && m.forward_peak >= m.saved) ++count, working -= m.saved;
        add_activation_items(out.items, table, chunks[c].piece, count, walk.peak_weights_due[c] * m.weight_held);
      }
    add_item(out.items, "working", step ? "optimizer step" : out.peak, working);
    add_item(out.items, "fragmentation", "reserved, not allocated", out.reserved_bytes - out.allocated_bytes);
    add_item(out.items, "overhead", "context and libraries", outside.context);
    add_item(out.items, "overhead", "communicators", outside.communicators);
    add_item(out.items, "overhead", "all-to-all connections", outside.all_to_all);
  }
  return out;
}

}  // namespace

std::vector<StageHoldings> stage_holdings(const Setting& setting, const plan::Schedule& schedule,
                                          const model::Kernels& kernels) {
  LayerTable table(setting, kernels, heaviest_rank(setting.load, setting.model.moe.num_experts, setting.layout.ep),
                   true);
  WeightTable weights(setting, kernels);
  std::vector<StageHoldings> out;
  for (int s = 0; s < schedule.num_stages; ++s) {
    const StageChunks stage = stage_chunks(table, weights, schedule, s);
    out.push_back({.states = stage.states, .stream = stage.stream});
    for (const MemoryChunk& chunk : stage.chunks) out.back().chunks.push_back(chunk.memory);
  }
  return out;
}

double needed_bytes(const Setting& setting, const model::Kernels& kernels, double allocated_bytes) {
  return allocated_bytes * (1 + kernels.fragmentation) + outside_bytes(setting, kernels).total();
}

MemoryEstimate estimate_memory(const Setting& setting, const plan::Schedule& schedule, const model::Kernels& kernels,
                               const MemoryOptions& options) {
  TRIREME_CHECK(schedule.num_stages == setting.layout.pp, "the schedule has {} stages, the layout {}",
                schedule.num_stages, setting.layout.pp);
  const auto& moe = setting.model.moe;
  LayerTable table(setting, kernels, heaviest_rank(setting.load, moe.num_experts, setting.layout.ep), true);
  WeightTable weights(setting, kernels);
  MemoryEstimate out;
  out.capacity_bytes = options.capacity_bytes;
  out.host_capacity_bytes = options.host_capacity_bytes;
  for (int s = 0; s < schedule.num_stages; ++s) {
    out.stages.push_back(stage_memory(table, weights, schedule, s, options));
    const StageMemory& stage = out.stages.back();
    if (stage.needed_bytes > out.stages[out.heaviest].needed_bytes) out.heaviest = s;
    if (options.capacity_bytes > 0 && stage.needed_bytes > options.capacity_bytes)
      out.reasons.push_back(reason_of(stage, options.capacity_bytes));
    if (options.host_capacity_bytes > 0 && stage.host_bytes > options.host_capacity_bytes)
      out.reasons.push_back(fmt::format("stage {} swaps {:.1f} GB a rank to a host that has {:.1f} for it", s,
                                        gigabytes(stage.host_bytes), gigabytes(options.host_capacity_bytes)));
  }
  out.feasible = out.reasons.empty();
  if (setting.load.cold_start_cv > 0) {
    LayerTable cold(setting, kernels, heaviest_rank(setting.load.cold_start_cv, moe.num_experts, setting.layout.ep),
                    true);
    for (int s = 0; s < schedule.num_stages; ++s)
      out.cold_start_needed_bytes = std::max(out.cold_start_needed_bytes,
                                             stage_memory(cold, weights, schedule, s, {.items = false}).needed_bytes);
  }
  return out;
}

}  // namespace trireme::sim
