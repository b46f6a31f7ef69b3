// What an estimate is of: a model in a layout with a batch and a precision. Everything in it is a value of the user's;
// nothing is guessed here. Machines are platform::PlatformSpec, software a platform::StackProfile.
#pragma once
#include <cstdint>
#include <vector>

#include "model/model_spec.h"
#include "plan/layout_spec.h"
#include "plan/run_spec.h"

namespace trireme::sim {

// The number format of matmuls. Weights, gradients and states have formats of their own in `Precision`.
enum class ComputeFormat { float32, bfloat16, float16, float8, mxfp8, nvfp4 };

struct Precision {
  ComputeFormat compute = ComputeFormat::bfloat16;
  double weight_bytes = 2;      // an element of the parameters that the forward uses
  double gradient_bytes = 4;    // of the accumulated gradients
  double master_bytes = 4;      // 0: no master weights
  double moment_bytes = 8;      // of all moments of an element together (AdamW 2 x 4, Muon 1 x 4)
  double reduce_bytes = 4;      // an element of a gradient in a message
  double gather_bytes = 2;      // an element of a parameter in a message
  double activation_bytes = 2;
  double dispatch_bytes = 2;    // an element of a routed row in a message, forward; combine and backward use 2
  bool operator==(const Precision&) const = default;
};

// Rows per expert: balanced, spread with a coefficient of variation, or as counted.
struct ExpertLoad {
  double cv = 0;                // standard deviation of rows per expert over their mean
  double cold_start_cv = 0;     // the same in the first steps, before balancing works; 0: not asked
  std::vector<double> counts;   // of each expert; comes before cv
  bool operator==(const ExpertLoad&) const = default;
};

// How operations reach the device, and how they are made there.
enum class Graphs { none, parts, whole };  // captured graphs: no host time for attention and router, or for anything
struct Execution {
  Graphs graphs = Graphs::none;
  bool fused_attention = true;   // scores never reach memory (FlashAttention); false: every score does, unmasked ones too
  bool dropout = false;          // of attention's probabilities, where scores reach memory
  bool fused_loss = true;        // cross-entropy in one pass over the logits
  bool reads_counts = true;      // the host waits for routed counts in every MoE layer (no device-side or padded counts)
  bool launches_by_expert = true; // a matmul for each expert, on several streams; false: grouped kernels
  bool fused_experts = false;    // experts' matmuls apply the activation, and quantise it and its gradient, as they write
  bool current_scaling = false;  // float8's scale comes from the tensor itself, read once more; false: from steps before
  double exchange_links = 1;      // share of the links' bandwidth that dispatch and combine reach
  double newton_schulz_flops_per_s = 0;  // of a rank, with whole-matrix owners; 0: as the device's matmuls
  bool alternate_matmuls = false;  // every second matmul of a dense part is computed again, beside layout.recompute
  bool frozen_weights = false;   // no weight gradients (adapters are trained, their own work left out)
  bool operator==(const Execution&) const = default;
};

struct Setting {
  model::ModelSpec model;
  plan::LayoutSpec layout;
  plan::BatchSpec batch;
  Precision precision;
  ExpertLoad load;
  Execution execution;
  int num_devices = 1;
  bool operator==(const Setting&) const = default;
};

}  // namespace trireme::sim
