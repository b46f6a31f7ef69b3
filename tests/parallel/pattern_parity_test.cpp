// Training by every all-to-all pattern computes what one process computes, whatever the nodes. Patterns that move rows
// as they are do so bit for bit alike; those that sum results on the way (dedup, allgather_a2a) do it in another order,
// which float64 shows as some 1e-16 of a sum, float32 as some 1e-7: relative to the losses of a few steps, 1e-12 and
// 1e-5.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/tiny_run.h"
#include "plan/all_to_all/generators.h"
#include "plan/exchange_pattern.h"
#include "support/rank_threads.h"

namespace trireme::testing {
namespace {

using plan::Mesh;

plan::RunSpec run_of(const std::string& pattern, const Mesh& mesh, DType dtype) {
  plan::RunSpec run = tiny_run();
  run.device.dtype = run.device.reduce_dtype = dtype;
  run.model.moe.router.top_k = 4;  // of 8 experts: several on a node
  run.layout.all_to_all = pattern;
  run.batch.micro_batch = 96 / (2 * mesh.dp);
  return run;
}

const Trace& single(DType dtype) {
  static std::map<DType, Trace> made;
  const auto [at, fresh] = made.try_emplace(dtype);
  if (fresh) at->second = run_single(run_of("flat", {}, dtype), {.steps = 2});
  return at->second;
}

double furthest(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) worst = std::max(worst, std::abs(a[i] / b[i] - 1));
  return worst;
}

class PatternParity : public ::testing::TestWithParam<Mesh> {};

TEST_P(PatternParity, EveryPatternTrainsAsOneProcessDoes) {
  const Mesh mesh = GetParam();
  const TinyOptions options{.steps = 2};
  const Trace flat = run_layout(run_of("flat", mesh, DType::float64), mesh, options);
  for (const std::string& name : plan::fitting_patterns(mesh)) {
    SCOPED_TRACE(name);
    const Trace trace = run_layout(run_of(name, mesh, DType::float64), mesh, options);
    std::string parameter;
    EXPECT_LE(worst_error(trace.gradients, single(DType::float64).gradients, &parameter), 1e-12) << parameter;
    EXPECT_LE(furthest(trace.losses, single(DType::float64).losses), 1e-12);
    EXPECT_LE(furthest(trace.norms, single(DType::float64).norms), 1e-10);
    EXPECT_EQ(trace.router_counts, flat.router_counts);
    const auto shapes = plan::ep_shapes(mesh);
    if (std::any_of(shapes.begin(), shapes.end(),
                    [&](const auto& shape) { return plan::needs_tokens(plan::make_pattern(name, shape)); }))
      continue;
    EXPECT_EQ(trace.losses, flat.losses);
    EXPECT_EQ(trace.norms, flat.norms);
    EXPECT_EQ(worst_error(trace.gradients, flat.gradients), 0.0);
  }
}

std::string name_of_mesh(const ::testing::TestParamInfo<Mesh>& test) {
  const Mesh& m = test.param;
  return fmt::format("pp{}_dp{}_ep{}_hosts_{}{}", m.pp, m.dp, m.ep, fmt::join(m.ranks_of_host, "_"),
                     m.hosts_per_group > 0 ? "_grouped" : "");
}

INSTANTIATE_TEST_SUITE_P(
    Nodes, PatternParity,
    ::testing::Values(Mesh{.dp = 2, .ep = 2, .ranks_of_host = {2}},
                      Mesh{.dp = 4, .ep = 4, .ranks_of_host = {1, 1, 1, 1}},
                      Mesh{.dp = 4, .ep = 4, .ranks_of_host = {2, 2}}, Mesh{.dp = 4, .ep = 4, .ranks_of_host = {3, 1}},
                      Mesh{.dp = 8, .ep = 8, .ranks_of_host = {3, 3, 2}},
                      // Two ep groups of four hosts in two groups of two: halo3 too.
                      Mesh{.dp = 8, .ep = 4, .ranks_of_host = {1, 1, 1, 1, 1, 1, 1, 1}, .hosts_per_group = 2},
                      // An ep group a stage, the second across two hosts.
                      Mesh{.pp = 2, .dp = 2, .ep = 2, .ranks_of_host = {3, 1}}),
    name_of_mesh);

TEST(PatternParityFloat32, SumsInAnotherOrderStayWithinTheStatedTolerance) {
  const Mesh mesh{.dp = 4, .ep = 4, .ranks_of_host = {2, 2}};
  const TinyOptions options{.steps = 3};
  const Trace flat = run_layout(run_of("flat", mesh, DType::float32), mesh, options);
  for (const std::string name : {"dedup", "allgather_a2a"}) {
    SCOPED_TRACE(name);
    const Trace trace = run_layout(run_of(name, mesh, DType::float32), mesh, options);
    EXPECT_LE(furthest(trace.losses, flat.losses), 1e-5);
    EXPECT_LE(worst_error(trace.gradients, flat.gradients), 1e-5);
    // Defined: the same run gives the same bits.
    const Trace again = run_layout(run_of(name, mesh, DType::float32), mesh, options);
    EXPECT_EQ(trace.losses, again.losses);
    EXPECT_EQ(worst_error(trace.gradients, again.gradients), 0.0);
  }
}

TEST(PatternParitySpecialCases, ARankWhoseExpertsGetNoTokens) {
  // A selection bias keeps every token on experts 0 to 3: the second node receives no row, in any layer.
  const Mesh mesh{.dp = 4, .ep = 4, .ranks_of_host = {2, 2}};
  TinyOptions options{.steps = 3};
  options.adjust = [](nn::Model& m) {
    for (int i = 0; i < m.hosted().layers.num_layers; ++i)
      if (m.spec().is_moe(m.hosted().layers.first_layer + i))
        m.selection_bias(m.hosted().layers.first_layer + i).narrow(0, 0, 4).fill_(5.0);
  };
  const auto adjusted = [&](const std::string& pattern) {
    plan::RunSpec run = run_of(pattern, mesh, DType::float64);
    run.model.moe.router.score = model::ScoreFunction::sigmoid;
    run.model.moe.router.selection_bias = true;
    return run;
  };
  const Trace alone = run_single(adjusted("flat"), options);
  for (const std::string& name : plan::fitting_patterns(mesh)) {
    SCOPED_TRACE(name);
    const Trace trace = run_layout(adjusted(name), mesh, options);
    EXPECT_LE(furthest(trace.losses, alone.losses), 1e-12);
    EXPECT_LE(worst_error(trace.gradients, alone.gradients), 1e-12);
  }
}

TEST(PatternParitySpecialCases, AStepHasThePhasesOfItsExchanges) {
  const Mesh mesh{.dp = 4, .ep = 4, .ranks_of_host = {2, 2}};
  for (const auto& [name, phases] :
       std::vector<std::pair<std::string, std::vector<std::string>>>{{"flat", {"direct"}},
                                                                     {"halo", {"local", "remote", "redistribute"}},
                                                                     {"dedup", {"local", "remote", "pass on"}}}) {
    SCOPED_TRACE(name);
    const plan::RunSpec run = run_of(name, mesh, DType::float32);
    const plan::Plan plan = plan::make_training_plan(run, mesh);
    run_mesh(mesh, [&](int rank, comm::Communicator& communicator) {
      const auto model = parallel::make_model(run, plan, rank);
      model->initialise(1);
      const auto buckets = parallel::make_buckets(run, plan, rank, *model);
      parallel::StepHooks hooks;
      hooks.batch = [&](int mb) {
        return tiny_batch(run, 0, (mb * 4 + rank) * run.batch.micro_batch, run.batch.micro_batch);
      };
      parallel::StageRuntime runtime(run, plan, communicator, rank, *model, buckets.get(), hooks);
      const plan::RankTimeline timeline = runtime.step().timeline;
      std::set<std::string> seen;
      std::map<std::pair<int, std::string>, int> parts;
      for (const plan::PhaseSpan& p : timeline.phases) {
        const plan::Action& action = plan.stages[0].actions.at(static_cast<std::size_t>(p.action));
        EXPECT_EQ(action.kind, plan::ActionKind::all_to_all);
        EXPECT_LE(p.start_s, p.end_s);
        // Inside of their action.
        EXPECT_GE(p.start_s, timeline.spans[static_cast<std::size_t>(p.action)].start_s);
        EXPECT_LE(p.end_s, timeline.spans[static_cast<std::size_t>(p.action)].end_s + 1e-6);
        if (p.part == "rows") seen.insert(p.phase), ++parts[{p.action, p.phase}];
      }
      EXPECT_EQ(seen, std::set<std::string>(phases.begin(), phases.end()));
      for (const plan::Action& a : plan.stages[0].actions)
        if (a.kind == plan::ActionKind::all_to_all)
          for (const std::string& phase : phases) EXPECT_EQ((parts[{a.id, phase}]), 1) << plan::describe(a);
    });
  }
}

}  // namespace
}  // namespace trireme::testing
