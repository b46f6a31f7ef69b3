#include "sim/estimate/memory_pieces.h"

#include <algorithm>

#include "base/errors.h"
#include "plan/pieces.h"
#include "sim/estimate/expert_load.h"

namespace trireme::sim {

LayerTable::LayerTable(const Setting& s, const model::Kernels& p, double load_factor, bool split)
    : setting(s), kernels(p), share(rank_share(s, p, load_factor)), split_(split) {}

const TapeMemory& LayerTable::layer(int layer, bool recomputed) {
  const model::Mixer mixer = setting.model.mixer(layer);
  const model::FeedForward feed_forward = setting.model.feed_forward(layer);
  for (int i = 0; i < num_entries_; ++i)
    if (entries_[i].mixer == mixer && entries_[i].feed_forward == feed_forward && entries_[i].recomputed == recomputed)
      return entries_[i].memory;
  TRIREME_CHECK(num_entries_ < capacity, "more kinds of layers than there can be");
  Entry& entry = entries_[num_entries_++];
  entry = {mixer, feed_forward, recomputed,
           model::run_tape(model::layer_tape(subject(recomputed), layer), split_)};
  return entry.memory;
}

const TapeMemory& LayerTable::head() {
  if (!has_head_) head_ = model::run_tape(model::head_tape(subject(false)), split_), has_head_ = true;
  return head_;
}

const TapeMemory& LayerTable::mtp() {
  if (!has_mtp_) mtp_ = model::run_tape(model::mtp_tape(subject(false)), split_), has_mtp_ = true;
  return mtp_;
}

bool recomputed_at(const Setting& setting, int place) {
  const auto& l = setting.layout;
  return !l.recompute.empty() && (l.recompute_layers == 0 || place < l.recompute_layers);
}

namespace {

struct Block {
  TapeMemory memory;
  int layer = -1;
  bool swaps = false;
};

// Every block of a piece in order (or in reverse): embedding, layers, MTP blocks with their heads, head.
template <class Use>
void each_block(LayerTable& table, const model::LayerRange& piece, bool reverse, const Use& use) {
  const model::ModelSpec& spec = table.setting.model;
  const int embed = piece.embed ? 1 : 0, mtp = piece.head ? spec.mtp_depth : 0, head = piece.head ? 1 : 0;
  const int count = embed + piece.num_layers + 3 * mtp + head;
  const bool swaps = table.setting.layout.swap.has(plan::Swap::activations);
  for (int k = 0; k < count; ++k) {
    int i = reverse ? count - 1 - k : k;
    if (i < embed) {
      use(Block{table.embedding()});
    } else if ((i -= embed) < piece.num_layers) {
      use(Block{table.layer(piece.first_layer + i, recomputed_at(table.setting, i)), piece.first_layer + i, swaps});
    } else if ((i -= piece.num_layers) < 3 * mtp) {
      const int layer = spec.num_layers + (spec.mtp_shared ? 0 : i / 3);
      if (i % 3 == 0)
        use(Block{table.mtp(), layer});
      else if (i % 3 == 1)
        use(Block{table.layer(layer, recomputed_at(table.setting, piece.num_layers)), layer, swaps});
      else
        use(Block{table.head()});
    } else {
      use(Block{table.head()});
    }
  }
}

}  // namespace

PieceMemory piece_memory(LayerTable& table, const model::LayerRange& piece) {
  PieceMemory out;
  double largest_swap = 0;
  each_block(table, piece, false, [&](const Block& b) {
    if (b.swaps) largest_swap = std::max(largest_swap, b.memory.saved);
  });
  const double moving = largest_swap * table.kernels.swapped_layers;  // on their way out, or back in
  const double stream = table.stream_bytes();

  each_block(table, piece, false, [&](const Block& b) {
    const double peak = out.saved + b.memory.forward_peak + moving;
    if (peak > out.forward_peak)
      out.forward_peak = peak, out.forward_layer = b.layer, out.forward_at = b.memory.forward_peak_at;
    (b.swaps ? out.host : out.saved) += b.memory.saved;
  });
  double base = out.saved;
  bool last = true;
  each_block(table, piece, true, [&](const Block& b) {
    if (!b.swaps) base -= b.memory.saved;
    // The gradient that came from the next stage stays until the piece's backward has ended.
    const double received = last || piece.head ? 0 : stream;
    last = false;
    const double whole = base + b.memory.backward_peak + moving + received;
    if (whole > out.backward_peak)
      out.backward_peak = whole, out.backward_layer = b.layer, out.backward_at = b.memory.backward_peak_at;
    const double inputs = base + b.memory.input_peak + moving + received + out.weight_held;
    if (inputs > out.input_peak)
      out.input_peak = inputs, out.input_layer = b.layer, out.input_at = b.memory.input_peak_at;
    out.weight_held += b.memory.weight_held;
    out.weight_peak = std::max(out.weight_peak, b.memory.weight_peak - b.memory.weight_held);
  });
  out.weight_peak += out.weight_held;
  return out;
}

void swapped_bytes(const Setting& setting, const model::Kernels& kernels, int count, std::vector<double>& out) {
  out.clear();
  if (!setting.layout.swap.has(plan::Swap::activations)) return;
  LayerTable table(setting, kernels, heaviest_rank(setting.load, setting.model.moe.num_experts, setting.layout.ep), false);
  for (int p = 0; p < count; ++p)
    out.push_back(piece_memory(table, plan::layers_of_piece(setting.layout, setting.model.num_layers, p)).host);
}

}  // namespace trireme::sim
