// What `trireme plan` says: the layout, the schedule's grid, memory by stage, predicted time by action kind.
#pragma once
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "plan/plan.h"
#include "plan/run_files.h"
#include "plan/run_spec.h"
#include "platform/platform_spec.h"

namespace trireme::report {

struct PlanView {
  const plan::RunSpec& run;
  const plan::Plan& plan;
  const plan::Costs& costs;
  const plan::Prediction& prediction;
  const platform::PlatformSpec& platform;
};

// Why the plan can't run on the platform, one line each; empty: it can. On accelerators each rank's peak against its
// device; on a CPU the peaks and baselines of a host's ranks against its memory.
std::vector<std::string> infeasibilities(const PlanView& view);

std::string plan_text(const PlanView& view);

// Keys: model {name, params_total, params_active}, mesh, ranks, feasible, reasons, step_s, tokens_per_s,
// tokens_per_s_per_device, model_tflops_per_device, mfu, peak_memory_bytes, memory (by stage), kinds, platform, schedule, all_to_all,
// timeline (one entry a stage: rank, spans with names).
nlohmann::json plan_json(const PlanView& view);

}  // namespace trireme::report
