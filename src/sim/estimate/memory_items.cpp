#include "sim/estimate/memory_items.h"

namespace trireme::sim {

namespace {

void add_tape(std::vector<MemoryItem>& items, const model::Tape& tape, double times, MemoryPlace place) {
  const auto saved = model::saved_tensors(tape);
  for (int t = 0; t < tape.num_tensors; ++t)
    if (saved[t]) add_item(items, "activations", tape.tensors[t].name, times * tape.tensors[t].bytes, place);
}

}  // namespace

void add_item(std::vector<MemoryItem>& items, const std::string& group, const std::string& name, double bytes,
              MemoryPlace place) {
  if (bytes == 0) return;
  for (MemoryItem& i : items)
    if (i.group == group && i.name == name && i.place == place) {
      i.bytes += bytes;
      return;
    }
  items.push_back({group, name, bytes, place});
}

std::vector<MemoryItem> state_items(const StateBytes& s) {
  std::vector<MemoryItem> out;
  add_item(out, "state", "parameters", s.parameters);
  add_item(out, "state", "gradients", s.gradients);
  add_item(out, "state", "master weights", s.master);
  add_item(out, "state", "moments", s.moments);
  add_item(out, "state", "optimizer state", s.host, MemoryPlace::host);
  add_item(out, "buffers", "gathered parameters", s.gathered);
  add_item(out, "buffers", "gradients to reduce", s.reduced);
  add_item(out, "buffers", "quantised weights", s.float8_weights);
  add_item(out, "buffers", "gradients handed to the engine", s.unused_gradients);
  add_item(out, "buffers", "workspaces of libraries", s.workspaces);
  return out;
}

void add_activation_items(std::vector<MemoryItem>& items, LayerTable& table, const model::LayerRange& piece,
                          int micro_batches, double weight_bytes) {
  add_item(items, "activations", "kept for weight gradients", weight_bytes);
  if (micro_batches == 0) return;
  const Setting& setting = table.setting;
  const double times = micro_batches;
  const MemoryPlace place = setting.layout.swap.has(plan::Swap::activations) ? MemoryPlace::host : MemoryPlace::device;
  if (piece.embed) add_item(items, "activations", "token ids", times * table.embedding().saved);
  const auto layer = [&](int number, bool recomputed) {
    add_tape(items, model::layer_tape(table.subject(recomputed), number), times, place);
  };
  for (int i = 0; i < piece.num_layers; ++i) layer(piece.first_layer + i, recomputed_at(setting, i));
  if (!piece.head) return;
  for (int i = 0; i < setting.model.mtp_depth; ++i) {
    add_tape(items, model::mtp_tape(table.subject(false)), times, MemoryPlace::device);
    layer(setting.model.num_layers + (setting.model.mtp_shared ? 0 : i), recomputed_at(setting, piece.num_layers));
    add_tape(items, model::head_tape(table.subject(false)), times, MemoryPlace::device);
  }
  add_tape(items, model::head_tape(table.subject(false)), times, MemoryPlace::device);
}

}  // namespace trireme::sim
