// The time of a training step: what each rank of each pipeline stage does, executed by the schedule.
//
// A StepModel is what doesn't depend on a machine's speed: the works of each distinct kind of layer, which layers are on
// which piece, the parameters of each piece, and the compiled schedule. It is evaluated with any machine in microseconds to
// milliseconds (the grid's slots). Stages are executed as they are: none is averaged.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "model/parameter_parts.h"
#include "sim/estimate/layer_time.h"
#include "sim/grid/simulate_grid.h"

namespace trireme::sim {

struct StepTime {
  double step_s = 0;
  double pipeline_s = 0;    // the schedule's makespan
  double reduce_s = 0;      // of gradients, what is not hidden
  double gather_s = 0;      // of parameters, what is not hidden
  double optimizer_s = 0;
  double bubble = 0;        // of the makespan of all stages, idle
  int slowest_stage = 0;    // the busiest one
  double tokens_per_s_per_device = 0;
};

// One part of the slowest stage's step, with what it follows from.
struct EstimateTerm {
  std::string what;
  double seconds = 0;      // a step, all micro-batches
  std::string source;
};

class StepModel {
 public:
  // The setting's layout.dp must be resolved (> 0). ConfigError (key layout.schedule, layout.stage_layers) where the
  // layout is no schedule. `grid`: compiled before for the same schedule, stages, chunks and micro-batches; none: made here.
  explicit StepModel(const Setting& setting, std::shared_ptr<const CompiledGrid> grid = nullptr);

  StepTime evaluate(const Machine& machine) const;
  StepTime evaluate(const Machine& machine, GridWorkspace& workspace) const;
  std::vector<EstimateTerm> explain(const Machine& machine) const;

  const Setting& setting() const { return setting_; }

 private:
  struct LayerKind {
    int layer = 0;  // an example
    bool recomputed = false, moe = false;
    WorkList works;
  };
  struct Piece {
    std::vector<int> kind_counts;  // layers of each kind
    bool embed = false, head = false;
    model::ParameterParts parameters;  // of a rank
  };
  struct PieceTime {
    PassTime forward, input, weight;
    double forward_s = 0, input_s = 0, weight_s = 0;
  };

  int kind_of(int layer, bool recomputed);
  void cut_into_pieces();
  PieceTime time_of(const Piece& piece, const std::vector<LayerTime>& kinds, const Machine& machine) const;
  PassTime shard_traffic(const Piece& piece, const Machine& machine, bool forward) const;
  double optimizer_s(const Piece& piece, const Machine& machine) const;

  Setting setting_;
  std::vector<LayerKind> kinds_;
  std::vector<Piece> pieces_;
  std::vector<std::vector<int>> piece_of_;  // [stage][chunk]; -1: empty
  std::shared_ptr<const CompiledGrid> grid_;
  WorkList embed_, head_, mtp_;
  int mtp_kind_ = -1;
};

// The setting's schedule, and the same ready for simulation. ConfigError as StepModel's.
plan::Schedule schedule_of(const Setting& setting);
std::shared_ptr<const CompiledGrid> compile_grid(const Setting& setting);

// Layers of each piece: the layout's stage_layers, or as even as possible with the later pieces fewer. ConfigError (key
// layout.stage_layers) where their number or their sum is wrong.
std::vector<int> layers_of_pieces(const plan::LayoutSpec& layout, int num_layers);

}  // namespace trireme::sim
