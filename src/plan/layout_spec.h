// How a model and its batch are laid over ranks: the [layout] table of a run, whose keys plan/layout_keys.h lists.
//
// Ranks: world = pp * dp * cp * tp, and the experts over the ranks of a stage (plan/mesh.h). A key that `trireme train` can't run yet is refused there (plan/runnable.h); planning
// takes them all.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/recompute.h"
#include "plan/axis_order.h"

namespace trireme::plan {

// What data ranks keep a part of only (ZeRO, Rajbhandari et al. 2020): each level includes the ones before.
enum class Sharding {
  none,        // everything replicated
  optimizer,   // 1: optimizer state and master weights
  gradients,   // 2: and gradients
  parameters,  // 3: and parameters, gathered before use (FSDP)
};

const char* name_of(Sharding sharding);
Sharding sharding_from_name(const std::string& name);  // std::invalid_argument
const std::vector<std::string>& sharding_names();

using model::Recompute;
using model::RecomputeSet;

// Sets of named parts, as lists of names in TOML.
RecomputeSet recompute_from_names(const std::vector<std::string>& names);  // std::invalid_argument names the first unknown
std::vector<std::string> names_of(RecomputeSet set);
const std::vector<std::string>& recompute_names();

// What lies in host memory between uses.
enum class Swap : std::uint32_t { activations = 1, optimizer = 2 };
struct SwapSet {
  std::uint32_t bits = 0;
  bool has(Swap part) const { return (bits & static_cast<std::uint32_t>(part)) != 0; }
  void add(Swap part) { bits |= static_cast<std::uint32_t>(part); }
  bool empty() const { return bits == 0; }
  bool operator==(const SwapSet&) const = default;
};
SwapSet swap_from_names(const std::vector<std::string>& names);
std::vector<std::string> names_of(SwapSet set);
const std::vector<std::string>& swap_names();

// Communication that runs beside compute where it can.
struct OverlapSpec {
  bool gradients = true;         // reductions of gradients beside the backward
  bool parameters = true;        // gathers of sharded parameters beside the compute before
  bool tensor = true;            // tensor-parallel collectives beside the matmuls next to them; says nothing where tp is 1
  bool experts = false;          // dispatch and combine beside another micro-batch (merged forward and backward)
  bool pipeline = true;          // sends between stages beside compute
  bool operator==(const OverlapSpec&) const = default;
};

struct Schedule;

// A schedule that a file gives (plan/pipeline/schedule_file.h).
struct ScheduleFile {
  std::string path;                      // empty: none
  std::shared_ptr<const Schedule> grid;  // once the file has been read
  bool operator==(const ScheduleFile& other) const;
};

struct LayoutSpec {
  int pp = 1;
  int dp = 0;                            // 0: follows from the number of ranks
  int ep = 1;
  int tp = 1;                            // tensor parallel: heads, ffn width, vocabulary
  bool sequence_parallel = true;         // with tp: norms and residuals split by token (Korthikanti et al. 2022)
  int cp = 1;                            // context parallel: the sequence split for attention
  int etp = 1;                           // tensor parallel inside an expert
  AxisOrder order = default_order;       // ranks over the axes, the first varies fastest
  AxisOrder expert_order;                // over the experts' axes; empty: follows order
  int virtual_stages = 1;                // chunks of the model on a stage; 1: as the schedule has it by itself
  int micro_batch_group = 0;             // interleaved and merged 1f1b: micro-batches of a chunk in a row; 0: pp
  std::string schedule = "1f1b";
  ScheduleFile schedule_file;              // in its place
  std::vector<std::int64_t> stage_layers;  // layers of each piece of the model, in its order, or of each stage
                                           // (plan/pieces.h); empty: as even as possible, the later ones fewer
  std::string all_to_all = "flat";       // auto: sim/exchange_choice.h puts the name of the fastest in its place
  double bucket_MiB = 25;                // gradient buckets
  Sharding sharding = Sharding::none;
  int shard_degree = 0;                  // data ranks that one set of shards spans (hybrid sharding); 0: all
  int expert_shard_degree = 0;           // the same for routed experts, inside edp; 0: all
  RecomputeSet recompute;
  int recompute_layers = 0;              // of a piece; 0: all of its layers
  SwapSet swap;
  OverlapSpec overlap;
  bool matrix_owners = false;            // optimizer state by whole matrices on owners (Muon), not by flat shards
  bool operator==(const LayoutSpec&) const = default;
};

}  // namespace trireme::plan
