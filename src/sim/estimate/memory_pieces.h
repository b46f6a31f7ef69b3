// What the micro-batches of one chunk of the model hold on a rank: between forward and backward, and at the worst
// moment of each.
#pragma once
#include "sim/estimate/described.h"
#include "sim/estimate/memory_states.h"

namespace trireme::sim {

// Layers of a setting by kind: each kind's tape runs once. No memory is allocated.
class LayerTable {
 public:
  // The references must outlive the table. `split`: also the backward in two parts.
  LayerTable(const Setting& setting, const model::Kernels& kernels, double load_factor, bool split);

  const TapeMemory& layer(int layer, bool recomputed);
  const TapeMemory& head();
  const TapeMemory& mtp();
  TapeMemory embedding() const { return model::embedding_memory(subject(false)); }
  model::Subject subject(bool recomputed) const {
    return subject_of(setting, kernels, share, recomputed ? setting.layout.recompute : plan::RecomputeSet{});
  }
  double stream_bytes() const { return model::stream_bytes(subject(false), share.split_tokens); }

  const Setting& setting;
  const model::Kernels& kernels;
  const model::Share share;

 private:
  struct Entry {
    model::Mixer mixer;
    model::FeedForward feed_forward;
    bool recomputed;
    TapeMemory memory;
  };
  static constexpr int capacity = 18;
  Entry entries_[capacity];
  int num_entries_ = 0;
  bool split_;
  TapeMemory head_, mtp_;
  bool has_head_ = false, has_mtp_ = false;
};

// Bytes; peaks are relative to what was there before the micro-batch's input.
struct PieceMemory {
  double saved = 0;  // on the device, between forward and backward
  double host = 0;   // swapped out
  double forward_peak = 0;
  double backward_peak = 0;  // from all of `saved`
  double input_peak = 0;     // of a backward that leaves the weight gradients
  double weight_held = 0;    // between the two
  double weight_peak = 0;
  int forward_layer = -1, backward_layer = -1, input_layer = -1;  // of the peaks; -1: an end
  const char* forward_at = "";
  const char* backward_at = "";
  const char* input_at = "";
};
PieceMemory piece_memory(LayerTable& table, const model::LayerRange& piece);

// Bytes that a micro-batch swaps out, by piece of `count`; `out`, whose memory is reused, stays empty where the layout
// swaps no activations.
void swapped_bytes(const Setting& setting, const model::Kernels& kernels, int count, std::vector<double>& out);

// Whether the layer at this place of a piece is recomputed.
bool recomputed_at(const Setting& setting, int place);

}  // namespace trireme::sim
