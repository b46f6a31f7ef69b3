// How fast the planner thinks, on one core: JSON lines. `schedule` lines give, for each schedule, how many full
// simulations a second there are of a compiled grid with new costs each time, and how long generating, compiling and
// simulating take. The `estimate` line gives step-time bounds and full estimates of a mixture of experts of
// DeepSeek-V3's sizes a second: PP 8 x 32 micro-batches on 256 devices. The `memory` line gives the same of its memory,
// the `search` line how long the search of the best layout of a trillion parameters on 4,096 devices takes. `lowering`
// lines give how long a plan of segments takes to make, and to make and to prove.
#include <algorithm>
#include <chrono>
#include <iostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/units.h"
#include "model/parameters.h"
#include "plan/pipeline/generators.h"
#include "plan/plan.h"
#include "search/layouts/layout_search.h"
#include "sim/estimate/memory.h"
#include "sim/estimate/step_bound.h"
#include "sim/estimate/step_model.h"
#include "sim/grid/simulate_grid.h"
#include "sim/rates/sheet_rates.h"

namespace {

using namespace trireme;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Median seconds of a call, of as many as fit into `budget_s` (at least 5).
template <class Call>
double median_s(double budget_s, Call call) {
  std::vector<double> taken;
  for (const auto begin = Clock::now(); taken.size() < 5 || since(begin) < budget_s;) {
    const auto start = Clock::now();
    call();
    taken.push_back(since(start));
  }
  std::nth_element(taken.begin(), taken.begin() + taken.size() / 2, taken.end());
  return taken[taken.size() / 2];
}

sim::GridCosts costs_of(const plan::Schedule& s, const plan::SlotTimes& t) {
  const std::size_t cells = static_cast<std::size_t>(s.num_stages) * s.num_chunks;
  sim::GridCosts c;
  c.forward_s.assign(cells, t.forward_s);
  c.backward_s.assign(cells, t.input_gradient_s + t.weight_gradient_s);
  c.input_gradient_s.assign(cells, t.input_gradient_s);
  c.weight_gradient_s.assign(cells, t.weight_gradient_s);
  c.forward_send_s.assign(cells, t.send_s);
  c.backward_send_s.assign(cells, t.send_s);
  return c;
}

void schedule(const std::string& name, const plan::ScheduleOptions& options, double budget_s) {
  const plan::SlotTimes times = options.times.empty() ? plan::SlotTimes{} : options.times[0];
  const plan::Schedule s = plan::make_schedule(name, options);
  const sim::CompiledGrid grid = sim::compile(s);
  sim::GridCosts costs = costs_of(s, times);
  sim::GridWorkspace workspace;
  const double generate_s = median_s(budget_s, [&] { plan::make_schedule(name, options); });
  const double compile_s = median_s(budget_s, [&] { sim::compile(s); });
  const double simulate_s = median_s(budget_s, [&] {
    costs.forward_s[0] *= 1 + 1e-9;
    sim::simulate_grid(grid, costs, workspace);
  });
  const double all_s = median_s(budget_s, [&] {
    const plan::Schedule fresh = plan::make_schedule(name, options);
    sim::simulate_grid(sim::compile(fresh), costs_of(fresh, times));
  });
  std::cout << nlohmann::json{{"bench", "schedule"},
                              {"schedule", name},
                              {"stages", s.num_stages},
                              {"chunks", s.num_chunks},
                              {"micro_batches", s.num_micro_batches},
                              {"times", options.times.empty() ? "equal" : "given"},
                              {"slots", grid.row_begin.back()},
                              {"simulations_per_s", 1 / simulate_s},
                              {"generate_ms", generate_s * 1e3},
                              {"compile_ms", compile_s * 1e3},
                              {"simulate_ms", simulate_s * 1e3},
                              {"generate_compile_simulate_ms", all_s * 1e3},
                              {"bubble_fraction", workspace.result.bubble_fraction()}}
                   .dump()
            << std::endl;
}

// From a name to a plan of segments whose order is proved: PP 64 x 1,024 micro-batches, a layer of experts a stage.
void lowering(const std::string& name, double budget_s) {
  plan::RunSpec run;
  run.model.hidden = 512, run.model.vocab_size = 1000, run.model.num_layers = 64;
  run.model.attention = {.num_heads = 8, .num_kv_heads = 2, .head_dim = 64};
  run.model.moe = {.num_experts = 64, .expert_ffn = 256};
  run.model.moe.router.top_k = 2;
  const plan::Mesh mesh{.pp = 64, .dp = 8, .ep = 8};
  run.layout.pp = mesh.pp, run.layout.schedule = name;
  run.batch = {.sequence_length = 64, .micro_batch = 1, .global_batch = 1024 * mesh.dp};
  std::size_t actions = 0;
  const double lower_s = median_s(budget_s, [&] { plan::make_training_plan(run, mesh); });
  const double all_s = median_s(budget_s, [&] {
    const plan::Plan lowered = plan::make_training_plan(run, mesh);
    TRIREME_CHECK(plan::problems(lowered).empty(), "{}", name);
    actions = 0;
    for (const plan::StagePlan& stage : lowered.stages) actions += stage.actions.size();
  });
  std::cout << nlohmann::json{{"bench", "lowering"},
                              {"schedule", name},
                              {"stages", mesh.pp},
                              {"micro_batches", 1024},
                              {"actions", actions},
                              {"generate_lower_s", lower_s},
                              {"generate_lower_prove_s", all_s}}
                   .dump()
            << std::endl;
}

sim::Setting mixture_of_experts() {
  sim::Setting s;
  s.model.hidden = 7168, s.model.num_layers = 61, s.model.num_dense_layers = 3, s.model.dense_ffn = 18432,
  s.model.vocab_size = 129280;
  s.model.attention = {.num_heads = 128, .num_kv_heads = 128, .head_dim = 192};
  s.model.attention.kind = model::AttentionKind::latent, s.model.attention.q_lora_rank = 1536,
  s.model.attention.kv_lora_rank = 512;
  s.model.attention.qk_nope_dim = 128, s.model.attention.qk_rope_dim = 64, s.model.attention.v_head_dim = 128;
  s.model.moe = {.num_experts = 256, .expert_ffn = 2048, .shared_ffn = 2048};
  s.model.moe.router.top_k = 8;
  s.layout.pp = 8, s.layout.dp = 32, s.layout.ep = 32, s.layout.all_to_all = "dedup",
  s.layout.sharding = plan::Sharding::optimizer;
  s.batch = {.sequence_length = 4096, .micro_batch = 1, .global_batch = 32 * 32};
  s.num_devices = 256;
  return s;
}

sim::SheetRates machine() {
  platform::PlatformSpec p;
  p.datasheet.peaks = {{"bfloat16", 989.4e12}};
  p.datasheet.memory_bytes_per_s = 3.35e12;
  p.datasheet.levels = {{.name = "node", .devices = 8, .latency_s = 3e-6, .bytes_per_s = 450e9},
                        {.name = "global", .latency_s = 8e-6, .bytes_per_s = 50e9}};
  return {p, {}, {}, sim::ComputeFormat::bfloat16};
}

void estimate(double budget_s) {
  const sim::Setting setting = mixture_of_experts();
  const sim::SheetRates m = machine();
  sim::BoundWorkspace workspace;
  sim::GridWorkspace grid;
  double bound = 0;
  const double bound_s = median_s(budget_s,
                                  [&] {
                                    for (int i = 0; i < 100; ++i)
                                      bound = sim::step_lower_bound_s(setting, m, workspace);
                                  }) /
                         100;
  const sim::StepModel model(setting);
  double exact = 0;
  const double evaluate_s = median_s(budget_s, [&] { exact = model.evaluate(m, grid).step_s; });
  const auto compiled = sim::compile_grid(setting);
  const double new_setting_s = median_s(budget_s, [&] { sim::StepModel(setting, compiled).evaluate(m, grid); });
  std::cout << nlohmann::json{{"bench", "estimate"},
                              {"bounds_per_s", 1 / bound_s},
                              {"evaluations_per_s", 1 / evaluate_s},
                              {"estimates_per_s", 1 / new_setting_s},
                              {"bound_over_step", bound / exact}}
                   .dump()
            << std::endl;
}

// A mixture of experts of 1.04 trillion parameters (Kimi K2's sizes) on 4,096 devices of 80 GiB: every knob searched.
void search_a_trillion(int threads) {
  search::Question q;
  q.base = mixture_of_experts();
  q.base.layout = {};
  q.base.model.moe.num_experts = 384, q.base.model.num_dense_layers = 1;
  q.base.model.attention.num_heads = q.base.model.attention.num_kv_heads = 64;
  q.base.batch = {.sequence_length = 4096, .micro_batch = 1, .global_batch = 16384};
  q.base.num_devices = 4096;
  sim::Machine m = machine().machine();
  m.host_bytes = 55e9;
  q.target.rates = std::make_shared<sim::SheetRates>(m);
  q.target.kernels = model::find_kernels("megatron");
  q.target.capacity_bytes = 80 * GiB, q.target.host_capacity_bytes = 256 * GiB;
  const search::SearchResult found = search::search_layouts(q, {.threads = threads});
  if (found.best.empty()) return;
  std::cout << nlohmann::json{{"bench", "search"},
                              {"params_total", model::count_parameters(q.base.model).total},
                              {"devices", q.base.num_devices},
                              {"layouts", found.layouts},
                              {"bounds", found.bounds},
                              {"estimates", found.estimates},
                              {"seconds", found.seconds},
                              {"step_s", found.best[0].time.step_s}}
                   .dump()
            << std::endl;
}

// Memory's lower bound and its full estimate, of the mixture of experts above.
void memory(double budget_s) {
  const sim::Setting s = mixture_of_experts();
  const model::Kernels profile = model::find_kernels("megatron");
  const plan::Schedule schedule = sim::schedule_of(s);
  double bound = 0, exact = 0;
  const double bound_s = median_s(budget_s, [&] { bound = sim::memory_lower_bound(s, profile); });
  const double estimate_s =
      median_s(budget_s, [&] { exact = sim::estimate_memory(s, schedule, profile, {.items = false}).needed_bytes(); });
  std::cout << nlohmann::json{{"bench", "memory"}, {"bounds_per_s", 1 / bound_s}, {"estimates_per_s", 1 / estimate_s},
                              {"bound_over_needed", bound / exact}}
                   .dump()
            << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Speed of planning, JSON lines"};
  double budget_s = 0.2;
  app.add_option("--seconds", budget_s, "of each measurement")->check(CLI::PositiveNumber);
  int threads = 0;
  app.add_option("--threads", threads, "of the search (default: all cores)")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  estimate(budget_s);
  memory(budget_s);
  search_a_trillion(threads);
  for (const std::string& name : plan::schedule_names())
    schedule(name, {.num_stages = 8, .num_micro_batches = 32}, budget_s);
  schedule("zero_bubble_v", {.num_stages = 16, .num_micro_batches = 512}, budget_s);
  schedule("zero_bubble_v", {.num_stages = 16, .num_micro_batches = 512, .times = {{1.3, 1.1, 0.8, 0.05}}}, budget_s);
  for (const std::string& name : plan::schedule_names()) lowering(name, budget_s);
  return 0;
}
