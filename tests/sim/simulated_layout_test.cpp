// The two levels of the search's model hold each other: the grid of slots, and the actions that it is lowered to.
#include "sim/simulated_layout.h"

#include <cmath>
#include <cstdio>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "plan/pipeline/generators.h"
#include "sim/estimate/memory.h"
#include "sim/random_setting.h"

namespace trireme::sim {
namespace {

Setting lowered_setting(std::mt19937& rng, const std::vector<model::ModelSpec>& models) {
  for (;;) {
    Setting s = random_setting(rng, models);
    plan::LayoutSpec& l = s.layout;
    if (s.model.moe.num_experts > 0 && rng() % 3 == 0 && (l.dp * l.cp * l.tp) % (2 * l.ep) == 0) l.etp = 2;
    const int experts = l.dp * l.cp * l.tp / (l.ep * l.etp);
    if (l.sharding != plan::Sharding::none && experts % 2 == 0 && rng() % 2) l.expert_shard_degree = 2;
    if (num_actions(s) < 20'000) return s;
  }
}

std::string name_of_layout(const Setting& s) {
  const plan::LayoutSpec& l = s.layout;
  return fmt::format("{} {} pp {} x {} tp {} cp {} ep {} etp {} dp {} {} swap {} overlap.pipeline {} .experts {} {} micro-batches",
                     s.model.name, l.schedule, l.pp, l.virtual_stages, l.tp, l.cp, l.ep, l.etp, l.dp,
                     plan::name_of(l.sharding), l.swap.bits, l.overlap.pipeline, l.overlap.experts,
                     s.batch.num_micro_batches(l.dp));
}

// Both levels have the same prices of slots, messages and updates, and differ in what executes them. The grid lets a
// message leave when its slot has ended and its stage's lane of that direction is free, into unlimited buffers. The actions
// meet: a receive is posted from the start, in the order of use, which for one peer and one direction is the order of
// sending; so a message waits for its sender's lane alone, as in the grid. Copies are beside their slot and end before the
// next begins: a slot is as long as the longer. Parts of gathers and reductions that are hidden (`overlap` of the shorter
// of message and passes) begin with the passes that hide them, lie behind each chunk's in proportion, and fill at most
// `overlap` <= 1 of their time, so they never delay what is left of them. By that the levels agree but for rounding:
// sums of some thousand doubles, in another order. 1 % is what is promised where passes become finer; what is asserted is
// 1e-9. Nothing is excluded: messages that contend outside of a stage's own lanes (two stages of a node on one network
// card) are in neither level.
TEST(SimulatedLayout, GridAndActionsTakeAndHoldTheSame) {
  const std::vector<model::ModelSpec> models = some_models();
  std::mt19937 rng(19);
  std::map<std::string, int> seen;
  double worst_time = 0, worst_memory = 0;
  std::string worst = "none";
  for (int i = 0; i < 400; ++i) {
    const Setting s = lowered_setting(rng, models);
    const SheetRates machine = machine_of(some_platforms[i % some_platforms.size()], s.precision.compute);
    model::Kernels memory;
    memory.last_gradients_stay = i % 2 == 0;
    memory.fragmentation = 0.1;
    const plan::Schedule schedule = schedule_of(s);
    const StepTime grid = StepModel(s, nullptr, memory).evaluate(machine);
    const SimulatedLayout actions = simulate_layout(s, schedule, nullptr, machine, memory);
    const MemoryEstimate walk = estimate_memory(s, schedule, memory, {.items = false, .slots = true});
    const double time = std::abs(actions.result.step_s / grid.step_s - 1),
                 bytes = std::abs(actions.needed_bytes / walk.needed_bytes() - 1);
    if (time >= worst_time) worst_time = time, worst = name_of_layout(s);
    worst_memory = std::max(worst_memory, bytes);
    EXPECT_LT(time, 1e-9) << i << ": " << name_of_layout(s);
    EXPECT_LT(bytes, 1e-9) << i << ": " << name_of_layout(s);
    if (i % 8 == 0) {
      EXPECT_THAT(plan::problems(actions.plan), testing::IsEmpty()) << name_of_layout(s);
      EXPECT_EQ(nlohmann::json(nlohmann::json(actions.plan).get<plan::Plan>()), nlohmann::json(actions.plan));
    }
    ++seen[s.layout.schedule];
  }
  std::printf("worst difference of the step %.2g (%s), of memory %.2g\n", worst_time, worst.c_str(), worst_memory);
  for (const auto& [name, count] : seen) EXPECT_GT(count, 15) << name;
  EXPECT_EQ(seen.size(), plan::schedule_names().size());
}

}  // namespace
}  // namespace trireme::sim
