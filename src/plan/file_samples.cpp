#include <nlohmann/json.hpp>

#include "plan/file_shape.h"
#include "plan/pipeline/gpipe.h"
#include "plan/run_files.h"

namespace trireme::plan {

namespace {

const std::vector<Span> spans = {{.start_s = 0, .end_s = 1}};
const std::vector<PhaseSpan> phases = {{.action = -1, .part = "rows", .phase = "local", .start_s = 0, .end_s = 1}};

}  // namespace

nlohmann::json sample_plan() {
  Plan plan{.mesh = {.pp = 2, .dp = 2, .ep = 2, .cp = 2, .tp = 2, .etp = 2, .ranks_of_host = {1}, .hosts_per_group = 1},
            .schedule = gpipe(1, 1)};
  StagePlan stage{.chunks = {{}}, .buffers = {{.to_shared = true}}, .buckets = {{.parts = {{}}}}};
  stage.actions = {{.segment = Segment::experts, .mb = 0, .chunk = 0, .backward_mb = 0, .backward_chunk = 0, .layer = 0,
                    .group = Axis::dp, .peer_stage = 0, .bucket = 0, .waits = {0}, .reads = {0}, .allocates = {0}, .frees = {0}}};
  plan.stages = {stage};
  nlohmann::json j = plan;
  j["grain"] = plan.grain;
  for (const char* order : {"order", "expert_order"}) j["mesh"][order] = "";
  return j;
}

nlohmann::json sample_prediction() {
  Prediction p{.ranks = {{.spans = spans, .phases = phases}}};
  // A workspace may be negative: it takes off what two buffers share.
  p.memory = {{.points = {{.time_s = 0, .bytes = -1}}, .at_peak = {{.what = "saved", .bytes = -1}}}};
  p.constant = {{{.what = "values", .bytes = 1}}};
  p.checkpoint_copy_bytes = {1};
  p.patterns = {{.pattern = "flat", .layer_s = 1}};
  return p;
}

nlohmann::json sample_measured() {
  return MeasuredRank{.step_offset_s = -1, .spans = spans, .phases = phases, .phase_s = {1}, .action_s = {1}, .expert_rows = {1}};
}

nlohmann::json sample_costs() {
  StageCosts stage{.action_s = {1}, .action_workspace_bytes = {-1}, .buffer_bytes = {1}, .exchanges = {{.phases = phases}}};
  return Costs{.stages = {stage}};
}

}  // namespace trireme::plan
