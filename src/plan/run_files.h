// What a run leaves in its folder for `trireme report`, and who writes it:
//   plan.json                   the Plan                                             rank 0, before the first step
//   costs.json                  the Costs                                            rank 0, before the first step
//   predicted.json              Prediction                                           rank 0, before the first step
//   measured/rank-NNNNN.json    MeasuredRank                                         each rank, at its end
//   metrics.jsonl               one object a step, see docs/report.md                rank 0, while it runs
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "plan/memory_curve.h"
#include "plan/plan.h"
#include "plan/timeline.h"

namespace trireme::plan {

// layout.all_to_all = "auto": a pattern that could be had, and the seconds of one micro-batch's dispatch and combine
// through one MoE layer, forward and backward.
struct PricedPattern {
  std::string pattern;
  double layer_s = 0;
  bool operator==(const PricedPattern&) const = default;
};
TRIREME_JSON(PricedPattern)

struct Prediction {
  double step_s = 0;
  double tokens_per_s = 0;            // of the whole run
  double model_flops_per_step = 0;    // of all ranks: PaLM's, no recomputation
  double peak_flops_per_s = 0;        // of one rank's device
  std::string platform;               // its name
  bool platform_measured = false;
  double baseline_bytes = 0;          // of a process before any tensor: not in any peak
  std::vector<RankTimeline> ranks;    // every rank, ascending
  std::vector<MemoryCurve> memory;    // by stage
  std::vector<std::vector<MemoryPart>> constant;  // by stage: what constant_bytes consists of
  // By stage, on its first data rank, which owns most: the host copy that it holds while a checkpoint is written and
  // training goes on. In no peak; 0 where the run saves none between its steps.
  std::vector<double> checkpoint_copy_bytes;
  std::vector<PricedPattern> patterns;  // by price, where the run leaves the all-to-all to the plan; else empty
  bool operator==(const Prediction&) const = default;
};
TRIREME_JSON(Prediction)

// What one rank measured. Times are from the step's start on this rank; the start of a step is the same moment on every
// rank as nearly as a barrier makes it (`step_offset_s` is what remains, from rank 0's).
struct MeasuredRank {
  int rank = 0;
  std::int64_t first_step = 0;        // steps [first_step, first_step + num_steps) are in the medians
  std::int64_t num_steps = 0;
  double step_s = 0;                  // median
  double step_offset_s = 0;
  double peak_memory_bytes = 0;       // highest over the steps without a checkpoint's copy, by the counting allocator
  double checkpoint_peak_bytes = 0;   // likewise over the steps with one; 0: there was none
  double checkpoint_copy_bytes = 0;   // the largest copy
  std::vector<Span> spans;            // of the step whose length is nearest to the median, aligned with the actions
  std::vector<PhaseSpan> phases;      // of its exchanges, of the same step as spans
  std::vector<double> phase_s;        // mean length of each phase over the same steps as action_s, aligned with phases
  std::vector<double> action_s;       // mean length of each action over the half of the steps nearest to the median, aligned
  std::vector<double> expert_rows;    // rows of each action that computes routed experts in a forward (else 0): mean over
                                      // the steps, aligned; empty where no expert was computed
  bool operator==(const MeasuredRank&) const = default;
};
TRIREME_JSON(MeasuredRank)

// Collects the spans of a rank's steps and makes the medians. Keeps the last `keep` steps added.
class MeasuredSteps {
 public:
  MeasuredSteps(int rank, int keep) : rank_(rank), keep_(keep) {}
  void add(std::int64_t step, double step_s, const std::vector<Span>& spans, const std::vector<double>& expert_rows = {},
           const std::vector<PhaseSpan>& phases = {});
  bool empty() const { return steps_.empty(); }
  // Peak as given. std::logic_error when no step was added.
  MeasuredRank summary(double peak_memory_bytes) const;

 private:
  struct Step {
    std::int64_t number = 0;
    double step_s = 0;
    std::vector<Span> spans;
    std::vector<double> expert_rows;
    std::vector<PhaseSpan> phases;
  };
  int rank_, keep_;
  std::vector<Step> steps_;  // a ring once full
  std::size_t next_ = 0;
};

// All files are written beside and renamed. The folder must exist; measured/ is made.
void write_plan(const std::filesystem::path& run_folder, const Plan& plan);
void write_costs(const std::filesystem::path& run_folder, const Costs& costs);
void write_prediction(const std::filesystem::path& run_folder, const Prediction& prediction);
void write_measured(const std::filesystem::path& run_folder, const MeasuredRank& measured);

// ConfigError with the file's name for a missing or broken one.
Plan read_plan(const std::filesystem::path& run_folder);
Prediction read_prediction(const std::filesystem::path& run_folder);
std::vector<MeasuredRank> read_measured(const std::filesystem::path& run_folder);  // ascending; none: empty

}  // namespace trireme::plan
