// What is known of the software behind a published row: facts, not fits. Which stack it is follows from the row's
// source; what the row leaves blank is the stack's default, and is then an assumption.
#pragma once
#include <string>

#include "model/flops.h"
#include "model/kernels.h"
#include "search/validation/row.h"
#include "sim/estimate/setting.h"

namespace trireme::search {

struct StackFacts {
  std::string name;  // of the stack profile's entry: "megatron_bridge_26.04"; "" where nobody knows it
  plan::Sharding sharding = plan::Sharding::optimizer;
  plan::RecomputeSet recompute;  // where a row doesn't say
  plan::RecomputeSet selective;  // what "selective" alone means
  bool sequence_parallel = true;
  bool overlap_gradients = true, overlap_tensor = false, overlap_pipeline = true;
  bool fused_attention = true, fused_loss = true, dropout = false;
  bool current_scaling = false;
  bool balanced = true;  // routing is forced to balance, or pads to equal counts, unless a row says otherwise
  bool dedup_exchange = false;  // where a row doesn't say
  bool alternate_matmuls = false;       // "selective" computes every second matmul again
  bool launches_by_expert = true;
  // Where whole iterations are captured in a block-scaled format: grouped kernels with the activation in them, and
  // messages beside another micro-batch.
  bool whole_graphs_fuse_experts = false;
  bool experts_cut_with_tp = false;  // where a row gives no etp: etp = tp
  double reduce_bytes = 4;
  model::FlopConvention flops = model::megatron_flops;
};

StackFacts facts_of(const Row& row);

// What a stack of this name keeps in memory; the plain framework for one that nobody has described.
model::Kernels kernels_of(const std::string& stack);

// The platform file that stands for a row's hardware ("dgx_h100"); "" for one that is not known.
std::string platform_of(const Row& row);

}  // namespace trireme::search
