// How operations reach the device, and how they are made there: what a run's settings choose among a stack's kernels.
#pragma once

namespace trireme::model {

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

}  // namespace trireme::model
