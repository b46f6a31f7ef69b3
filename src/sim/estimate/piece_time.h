// A setting cut into pieces of the model, and what a piece costs a rank: its passes for one micro-batch, its gradients'
// reduction, its parameters' gathering and its optimizer step.
#pragma once
#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "sim/estimate/layer_time.h"

namespace trireme::sim {

inline constexpr int max_layer_kinds = 24;

// Layers that cost the same.
struct LayerKind {
  int layer = 0;  // an example
  bool recomputed = false, moe = false;
  double dense = 0, experts = 0;  // parameters of one, on a rank
};

struct PieceShape {
  std::array<std::int16_t, max_layer_kinds> layers{};  // of each kind
  bool embed = false, head = false;
  double dense = 0, experts = 0;  // parameters on a rank
};

struct StepShape {
  std::vector<LayerKind> kinds;
  std::vector<PieceShape> pieces;
  int mtp_kind = -1;
};

// Fills `out`, whose memory is reused. ConfigError as plan::check_stage_layers.
void shape_step(const Setting& setting, StepShape& out);

// Of the ends, which only the first and the last piece have.
struct EndTimes {
  LayerTime embed, head, mtp_projection;
};

struct PieceTime {
  PassTime forward, input, weight;                  // input: with what is computed again
  double forward_s = 0, input_s = 0, weight_s = 0;  // of compute and messages
  double copy_s = 0;  // of swapped activations over the host's link: out beside the forward, in beside the backward
  // A slot is as long as the longer of what it computes and what it copies.
  double forward_slot_s() const { return std::max(forward_s, copy_s); }
  double input_slot_s() const { return std::max(input_s, copy_s); }
  double backward_slot_s() const { return std::max(input_s + weight_s, copy_s); }
  double copies_not_hidden_s() const {
    return std::max(0.0, copy_s - forward_s) + std::max(0.0, copy_s - (input_s + weight_s));
  }
};
// `host_bytes`: swapped out by a micro-batch.
PieceTime piece_time(const Setting& setting, const Rates& rates, const StepShape& shape, const PieceShape& piece,
                     std::span<const LayerTime> kinds, const EndTimes& ends, double host_bytes = 0);

// Whether the layout's schedule joins forwards with backwards, each half's exchanges beside the other's compute.
bool joins(const plan::LayoutSpec& layout);

// Of the slot that joins them: what it computes (as one where the layout joins, else one after the other), and with the
// copies of either half, of which the link carries both ways at once.
double joined_compute_s(const Setting& setting, const PieceTime& forward, const PieceTime& backward, const Rates& rates);
double joined_s(const Setting& setting, const PieceTime& forward, const PieceTime& backward, const Rates& rates);

// Of a stage with these parameters, before any of it is hidden. With hybrid shards a gradient is scattered over the
// ranks of one set of shards, and each shard is then summed over the sets.
struct UpdateTime {
  double reduce_s = 0, gather_s = 0, optimizer_s = 0;
  double states_s = 0;  // optimizer state's way from host memory, or back to it; 0: it is not swapped
  // State comes in slices: each comes in while the one before is updated and the one before that goes out, both ways of
  // the link at once. The first one's way in, or the last one's way out, is beside nothing.
  static constexpr double slices = 16;
  double update_s() const { return std::max(optimizer_s, states_s) + states_s / slices; }
};
UpdateTime update_time(const Setting& setting, const Rates& rates, double dense, double experts);

// Of it, seconds of the step outside the pipeline for a stage whose last micro-batch's backwards and first one's forwards take
// this long: what overlap leaves.
UpdateTime exposed(const Setting& setting, const Rates& rates, UpdateTime update, double forward_s,
                   double backward_s);

}  // namespace trireme::sim
