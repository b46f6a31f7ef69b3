// The time of a training step: what each rank of each pipeline stage does, executed by the schedule.
//
// A StepModel is what doesn't depend on a machine's speed: the works of each distinct kind of layer, which layers are
// on which piece, the parameters of each piece, and the compiled schedule. It is evaluated with any machine in
// microseconds to milliseconds (the grid's slots). Stages are executed as they are: none is averaged.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "model/kernels.h"
#include "sim/estimate/piece_time.h"
#include "sim/grid/simulate_grid.h"

namespace trireme::sim {

struct StepTime {
  double step_s = 0;
  double pipeline_s = 0;  // the schedule's makespan
  double reduce_s = 0;    // of gradients, what is not hidden; of the stage that ends last, as the two below
  double gather_s = 0;    // of parameters, what is not hidden
  double optimizer_s = 0;
  double swap_s = 0;      // of the makespan: copies of activations that compute does not hide, on the stage with most
  double bubble = 0;      // of the makespan of all stages, idle
  int slowest_stage = 0;  // the busiest one
  double tokens_per_s_per_device = 0;
  bool operator==(const StepTime&) const = default;
};

// What a stage does after its pipeline.
struct StageUpdate {
  UpdateTime whole;                       // nothing hidden
  double forward_s = 0, backward_s = 0;   // of one micro-batch, all chunks: what it can hide behind
};

// What slots, messages and updates of a setting take on a machine: the grid is executed with it, and the actions of its
// lowered plan are priced with it.
struct StepPrices {
  std::vector<PieceTime> pieces;
  double send_s = 0;  // a piece's output, or its gradient, to another stage
  std::vector<StageUpdate> updates;  // by stage
};

// One part of the busiest stage's step, with what it follows from.
struct EstimateTerm {
  std::string what;
  double seconds = 0;  // a step, all micro-batches
  std::string source;
  std::string formula;  // where docs/ has it: "price.md#matmul"
};
TRIREME_JSON(EstimateTerm)

class StepModel {
 public:
  // The setting's layout.dp must be resolved (> 0). ConfigError (key layout.schedule, layout.stage_layers,
  // layout.micro_batch_group) where the layout is no schedule. `grid`: compiled before for the same schedule, stages,
  // chunks, micro-batches and group; none: made here. `memory`: which activations there are to swap.
  explicit StepModel(const Setting& setting, std::shared_ptr<const CompiledGrid> grid = nullptr,
                     const model::Kernels& memory = {});

  StepTime evaluate(const Rates& rates) const;
  // `spans`: the workspace's result has the span of every slot.
  StepTime evaluate(const Rates& rates, GridWorkspace& workspace, bool spans = false) const;

  // Every term of the busiest stage: works by name and pass, idle time, what follows the pipeline. They sum to the
  // step, but for what is hidden and what waits for the host, which have terms of their own.
  std::vector<EstimateTerm> explain(const Rates& rates) const;

  StepPrices prices(const Rates& rates) const;
  int piece(int stage, int chunk) const { return plan::piece_of(map_, setting_.layout.pp, stage, chunk); }
  const Setting& setting() const { return setting_; }

 private:
  std::vector<PieceTime> piece_times(const Rates& rates) const;
  GridCosts grid_costs(const Rates& rates, const StepPrices& prices) const;

  Setting setting_;
  StepShape shape_;
  std::vector<OperatorList> works_;  // of each kind
  OperatorList embed_, head_, mtp_;
  plan::PieceMap map_;
  std::vector<double> host_bytes_;  // by piece; empty: nothing is swapped
  std::shared_ptr<const CompiledGrid> grid_;
};

// The setting's schedule, and the same ready for simulation. ConfigError as StepModel's.
plan::Schedule schedule_of(const Setting& setting);
std::shared_ptr<const CompiledGrid> compile_grid(const Setting& setting);

}  // namespace trireme::sim
