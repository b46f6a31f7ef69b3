// The plan of a step: what every rank does, as one value. `sim` prices it, `parallel` runs it.
// All ranks of a stage have the same list (their groups differ by their place in the mesh).
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "model/layer_range.h"
#include "plan/mesh.h"
#include "plan/pipeline/action.h"
#include "plan/pipeline/schedule.h"
#include "plan/run_spec.h"
#include "plan/timeline.h"

namespace trireme::plan {

// A piece of the model as its stage holds it (plan/pieces.h says which layers it has).
using Chunk = model::LayerRange;

// Parameters that are reduced together: all dense (or all routed-expert) parameters of these segments.
struct BucketPart {
  int layer = -1;
  Segment segment = Segment::none;
  bool operator==(const BucketPart&) const = default;
};
TRIREME_JSON(BucketPart)

struct Bucket {
  bool expert = false;          // routed experts: reduced over edp; else dense: over dp
  std::vector<BucketPart> parts;
  double elements = 0;          // on one rank
  bool operator==(const Bucket&) const = default;
};
TRIREME_JSON(Bucket)

struct StagePlan {
  std::vector<Chunk> chunks;
  std::vector<Buffer> buffers;   // Action::reads, allocates and frees index this
  std::vector<Bucket> buckets;
  std::vector<Action> actions;
  bool operator==(const StagePlan&) const = default;
};
TRIREME_JSON(StagePlan)

// What one compute action is: a segment's pass, or a slot of the schedule's grid, which is a chunk's. Plans of chunks are
// priced and simulated for any layout that can be searched; the runtime executes segments.
enum class Grain { segment, chunk };
TRIREME_JSON(Grain)

struct Plan {
  Mesh mesh;
  Grain grain = Grain::segment;
  Schedule schedule;
  std::string all_to_all = "flat";
  int num_micro_batches = 1;
  std::vector<StagePlan> stages;  // by pp index
  bool operator==(const Plan&) const = default;
};
void to_json(nlohmann::json& j, const Plan& plan);
void from_json(const nlohmann::json& j, Plan& plan);

// Empty when right. Checks the schedule, that waits name earlier actions, that every send has its receive in the same
// order, that members issue a group's collectives in the same order, that buffers are allocated once, read while alive
// and freed once, that every gradient bucket is reduced once, after the last backward of each of its parts, and that
// the order as a whole can be executed (why_stuck).
std::vector<std::string> problems(const Plan& plan);

// The groups of the plan's messages between stages, each once, in one order for all ranks.
std::vector<GroupKind> message_groups(const Plan& plan);

// FNV-1a over the canonical JSON: ranks compare it before the first step.
std::uint64_t hash(const Plan& plan);

// The schedule's grid and each stage's actions, a line each.
std::string to_text(const Plan& plan);

// Lowering: the grid to lane actions, pass by pass (plan/lowering/).
// At the grain of a chunk: any schedule, any policy. `pieces`: the layers of each piece of the model, in its order.
Plan lower_chunks(const LayoutSpec& layout, const Mesh& mesh, const Schedule& schedule, const std::vector<Chunk>& pieces);
// At the grain of a segment: what `trireme train` executes.
Plan make_training_plan(const RunSpec& run, const Mesh& mesh);
Plan make_evaluation_plan(const RunSpec& run, const Mesh& mesh, int num_micro_batches);

// How the price of a stage's exchanges of one kind is made up: phases from the action's start.
struct ExchangeCosts {
  Segment segment = Segment::dispatch;
  bool backward = false;
  std::vector<PhaseSpan> phases;
  bool operator==(const ExchangeCosts&) const = default;
};
TRIREME_JSON(ExchangeCosts)

// The price of every action and buffer of a stage, aligned with StagePlan. Filled in by `sim`, or from a file.
struct StageCosts {
  std::vector<double> action_s;
  std::vector<double> action_workspace_bytes;  // transient while the action runs
  std::vector<double> buffer_bytes;
  double constant_bytes = 0;                   // parameters, gradients, optimizer state, framework
  std::vector<ExchangeCosts> exchanges;        // of the kinds that the stage has
  bool operator==(const StageCosts&) const = default;
};
TRIREME_JSON(StageCosts)

struct Costs {
  std::vector<StageCosts> stages;
  bool operator==(const Costs&) const = default;
};
TRIREME_JSON(Costs)

}  // namespace trireme::plan
