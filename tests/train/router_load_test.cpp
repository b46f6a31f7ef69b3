#include "train/metrics/router_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/rank_threads.h"
#include "train/metrics/step_metrics.h"
#include "train/metrics/tensorboard.h"

namespace trireme::train {
namespace {

using ::testing::ElementsAre;

// 2, 4, 4, 6: mean 4, deviations -2, 0, 0, 2, their mean square 2, root 1.41421 over 4.
TEST(RouterLoad, RatiosByLayer) {
  const RouterLoad load = router_load(1, {{2, 4, 4, 6}, {8, 0, 0, 0}, {3, 3, 3, 3}});
  EXPECT_THAT(load.max_over_mean, ElementsAre(1.5, 4, 1));
  EXPECT_THAT(load.min_over_mean, ElementsAre(0.5, 0, 1));
  // 8, 0, 0, 0: deviations 6, -2, -2, -2, mean square 12, root 3.4641 over 2.
  EXPECT_THAT(load.cv, ElementsAre(0.3536, 1.7321, 0));
  EXPECT_THAT(router_load(0, {{0, 0}}).max_over_mean, ElementsAre(0)) << "a step without tokens";
}

TEST(RouterLoad, ReadsBackWhatItWrites) {
  StepMetrics metrics{.step = 3, .router_load = router_load(1, {{2, 4, 4, 6}, {8, 0, 0, 0}})};
  EXPECT_EQ(step_metrics_from_json(nlohmann::json::parse(to_json(metrics).dump())).router_load, metrics.router_load);
  metrics.router_load->rows.clear();
  EXPECT_FALSE(to_json(metrics)["router_load"].contains("rows"));
  EXPECT_EQ(step_metrics_from_json(nlohmann::json::parse(to_json(metrics).dump())).router_load, metrics.router_load);
  EXPECT_FALSE(to_json(StepMetrics{}).contains("router_load"));
}

TEST(RouterLoad, TensorBoardHasACurveALayer) {
  const auto scalars = scalars_of(router_load(1, {{2, 4, 4, 6}, {8, 0, 0, 0}}));
  ASSERT_EQ(scalars.size(), 6u);
  EXPECT_EQ(scalars[0].tag, "router_max_over_mean/layer_01");
  EXPECT_EQ(scalars[0].value, 1.5f);
  EXPECT_EQ(scalars[3].tag, "router_min_over_mean/layer_02");
  EXPECT_EQ(scalars[3].value, 0.0f);
  EXPECT_EQ(scalars[5].tag, "router_cv/layer_02");
}

// 3 layers of 8 experts fit in a line of 1,024; 58 of 256 are 14,848 numbers, of which every fifteenth line has all.
TEST(RouterLoad, LargeModelsWriteTheirRowsNowAndThen) {
  model::ModelSpec spec{.num_layers = 3};
  spec.moe = {.num_experts = 8, .expert_ffn = 6};
  spec.moe.router.top_k = 2;
  EXPECT_EQ(steps_between_rows(spec, 5), 5);
  spec.num_layers = 61, spec.num_dense_layers = 3, spec.moe.num_experts = 256;
  EXPECT_EQ(steps_between_rows(spec, 10), 150);
}

// Two stages of two data ranks; layer 0 and 1 on the first, 2 and 3 on the second. Both data ranks of a stage know its
// counts, one contributes them.
TEST(RouterLoad, EveryRankGetsTheRowsOfAllStages) {
  model::ModelSpec spec{.num_layers = 4, .num_dense_layers = 1};
  spec.moe = {.num_experts = 2, .expert_ffn = 6};
  spec.moe.router.top_k = 1;
  const plan::Mesh mesh{.pp = 2, .dp = 2, .ep = 1};
  testing::run_mesh(mesh, [&](int rank, comm::Communicator& communicator) {
    parallel::StepSums sums;
    if (mesh.pp_index(rank) == 0)
      sums.router_counts = {{1, {10, 11}}};
    else
      sums.router_counts = {{2, {20, 21}}, {3, {30, 31}}};
    const auto rows = gather_router_rows(sums, spec, communicator.group(plan::world_group), mesh.dp_index(rank) == 0);
    EXPECT_THAT(rows, ElementsAre(ElementsAre(10, 11), ElementsAre(20, 21), ElementsAre(30, 31))) << rank;
  });
}

}  // namespace
}  // namespace trireme::train
