// How fast the planner thinks, on one core: JSON lines. `schedule` lines give, for each schedule, how many full
// simulations a second there are of a compiled grid with new costs each time, and how long generating, compiling and
// simulating take.
#include <algorithm>
#include <chrono>
#include <iostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "plan/pipeline/generators.h"
#include "sim/grid/simulate_grid.h"

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
  c.activation_bytes.assign(cells, 1e9);
  c.sends = sim::SendMode::lane;
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

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Speed of planning, JSON lines"};
  double budget_s = 0.2;
  app.add_option("--seconds", budget_s, "of each measurement")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  for (const std::string& name : plan::schedule_names())
    schedule(name, {.num_stages = 8, .num_micro_batches = 32}, budget_s);
  schedule("zero_bubble_v", {.num_stages = 16, .num_micro_batches = 512}, budget_s);
  schedule("zero_bubble_v", {.num_stages = 16, .num_micro_batches = 512, .times = {{1.3, 1.1, 0.8, 0.05}}}, budget_s);
  return 0;
}
