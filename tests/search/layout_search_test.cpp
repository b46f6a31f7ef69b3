// Branch and bound against estimating every layout of small spaces, and bounds against estimates of random layouts.
#include "search/layouts/layout_search.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/platform_file.h"
#include "search/layouts/coarse.h"
#include "search/layouts/layout_rules.h"
#include "search/layouts/pareto.h"
#include "sim/rates/sheet_rates.h"

namespace trireme::search {
namespace {

Question small_question(int devices, double memory_GB) {
  Question q;
  sim::Setting& s = q.base;
  s.model.name = "small";
  s.model.vocab_size = 32000, s.model.hidden = 2048, s.model.num_layers = 6, s.model.num_dense_layers = 1,
  s.model.dense_ffn = 8192;
  s.model.attention.num_heads = 16, s.model.attention.num_kv_heads = 16, s.model.attention.head_dim = 128;
  s.model.moe = {.num_experts = 8, .expert_ffn = 4096};
  s.model.moe.router.top_k = 2;
  s.num_devices = devices;
  s.batch = {.sequence_length = 4096, .micro_batch = 1, .global_batch = 32};
  const auto platform = platform::load_platform(TRIREME_SOURCE_DIR "/configs/platforms/dgx_h100.toml");
  q.target = make_target(platform, {}, "", model::find_kernels("megatron"), s.precision.compute);
  q.target.capacity_bytes = memory_GB * 1e9;
  return q;
}

struct Space {
  double best_s = 1e300;
  long long layouts = 0, feasible = 0;
};

// Every layout of the space estimated; also holds each group's bounds below its layouts.
Space try_everything(const Question& q) {
  Space out;
  CoarseBounds b(q);
  ScheduleShelf shelf;
  sim::GridWorkspace workspace;
  for (const Cell& cell : cells_of(q)) {
    b.enter_cell(cell);
    const double cell_s = b.bound_cell_s();
    for (const Family& family : families_of(q, cell)) {
      if (!b.enter_family(family)) continue;
      for (const Recomputation& r : recomputations_of(q, b.most_layers_of_a_piece())) {
        const double frugal = b.bound_family_bytes(r);
        b.enter_recomputation(r);
        for (const States& states : states_of(q, cell)) {
          b.enter_states(states);
          const Estimate e = estimate(q, b.setting(), shelf, workspace, true);
          ++out.layouts;
          EXPECT_LE(b.bound_s(), e.time.step_s);
          EXPECT_LE(b.bound_s_with_copies(), e.time.step_s);
          EXPECT_LE(cell_s, e.time.step_s);
          EXPECT_LE(b.bound_bytes(), e.needed_bytes * (1 + 1e-12));
          EXPECT_LE(frugal, e.needed_bytes * (1 + 1e-12));
          if (!e.feasible) continue;
          ++out.feasible;
          out.best_s = std::min(out.best_s, e.time.step_s);
        }
      }
    }
  }
  return out;
}

void fix(Question& q, std::initializer_list<const char*> keys) {
  for (const char* key : keys) q.given.insert(key);
}

// Memory decides: from plenty to where only few layouts fit.
TEST(LayoutSearch, FindsWhatTryingEverythingFinds) {
  for (const double memory_GB : {200.0, 24.0, 16.0}) {
    Question q = small_question(4, memory_GB);
    fix(q, {"layout.cp", "layout.etp", "batch.micro_batch", "layout.tp", "layout.swap"});
    q.base.batch.global_batch = 16;
    const Space all = try_everything(q);
    ASSERT_GT(all.layouts, 1000);
    const SearchResult found = search_layouts(q, {.top = 1, .threads = 2});
    if (all.feasible == 0) {
      EXPECT_TRUE(found.best.empty()) << memory_GB;
      EXPECT_FALSE(found.reasons.empty());
      continue;
    }
    ASSERT_FALSE(found.best.empty()) << memory_GB;
    EXPECT_DOUBLE_EQ(found.best[0].time.step_s, all.best_s) << memory_GB;
    EXPECT_LT(found.estimates, all.layouts / 10);  // it did not try everything
  }
}

TEST(LayoutSearch, FindsTheBestWithTensorParallelismAndSwapping) {
  Question q = small_question(8, 18);
  fix(q, {"layout.cp", "layout.recompute", "layout.virtual_stages", "layout.sharding", "layout.schedule"});
  q.base.layout.sharding = plan::Sharding::optimizer;
  const Space all = try_everything(q);
  ASSERT_GT(all.feasible, 0);
  const SearchResult found = search_layouts(q, {.top = 3, .threads = 1});
  ASSERT_FALSE(found.best.empty());
  EXPECT_DOUBLE_EQ(found.best[0].time.step_s, all.best_s);
}

// Nodes of two devices: the experts' messages leave them, and each pattern is the best somewhere.
TEST(LayoutSearch, FindsTheBestPattern) {
  for (const double memory_GB : {200.0, 14.0}) {
    Question q = small_question(8, memory_GB);
    sim::Machine m = dynamic_cast<const sim::SheetRates&>(*q.target.rates).machine();
    m.levels[0].devices = 2;
    m.levels[1].latency_s = 200e-6;
    q.target.rates = std::make_shared<sim::SheetRates>(m);
    q.base.model.moe.router.top_k = 8, q.base.model.moe.expert_ffn = 1024;
    fix(q, {"layout.cp", "layout.etp", "batch.micro_batch", "layout.tp", "layout.recompute", "layout.sharding",
            "layout.virtual_stages", "layout.pp", "layout.swap"});
    q.base.layout.sharding = plan::Sharding::optimizer, q.base.layout.pp = 2;
    std::set<std::string> patterns;
    for (const Family& f : families_of(q, {.pp = 2, .ep = 4})) patterns.insert(f.all_to_all);
    EXPECT_THAT(patterns, testing::ElementsAre("allgather_a2a", "dedup", "flat", "halo"));
    const Space all = try_everything(q);
    ASSERT_GT(all.feasible, 0);
    const SearchResult found = search_layouts(q, {.top = 1, .threads = 2});
    ASSERT_FALSE(found.best.empty());
    EXPECT_DOUBLE_EQ(found.best[0].time.step_s, all.best_s);
  }
}

TEST(LayoutSearch, DoesNotDependOnTheNumberOfThreads) {
  const Question q = small_question(16, 30);
  const SearchResult one = search_layouts(q, {.top = 5, .threads = 1});
  const SearchResult three = search_layouts(q, {.top = 5, .threads = 3});
  ASSERT_EQ(one.best.size(), three.best.size());
  for (std::size_t i = 0; i < one.best.size(); ++i) EXPECT_EQ(one.best[i].setting, three.best[i].setting) << i;
  EXPECT_EQ(one.bounds, three.bounds);
  EXPECT_EQ(one.estimates, three.estimates);
}

TEST(LayoutSearch, KeepsWhatIsGiven) {
  Question q = small_question(16, 80);
  fix(q, {"layout.pp", "layout.ep", "layout.schedule"});
  q.base.layout.pp = 2, q.base.layout.ep = 4, q.base.layout.schedule = "zero_bubble_h1";
  const SearchResult found = search_layouts(q);
  ASSERT_FALSE(found.best.empty());
  for (const Estimate& e : found.best) {
    EXPECT_EQ(e.setting.layout.pp, 2);
    EXPECT_EQ(e.setting.layout.ep, 4);
    EXPECT_EQ(e.setting.layout.schedule, "zero_bubble_h1");
  }
}

TEST(LayoutSearch, SaysWhyNothingFits) {
  Question q = small_question(4, 2);
  const SearchResult full = search_layouts(q);
  EXPECT_TRUE(full.best.empty());
  ASSERT_TRUE(full.closest);
  EXPECT_FALSE(full.closest->feasible);
  ASSERT_FALSE(full.reasons.empty());
  EXPECT_THAT(full.reasons[0], testing::HasSubstr("GB of 2.0"));

  q = small_question(16, 80);
  fix(q, {"layout.ep"});
  q.base.layout.ep = 3;
  const SearchResult odd = search_layouts(q);
  EXPECT_TRUE(odd.best.empty());
  EXPECT_FALSE(odd.closest);
  ASSERT_FALSE(odd.reasons.empty());
  EXPECT_EQ(odd.reasons[0], "layout.ep = 3 does not divide the 8 experts");
}

TEST(LayoutSearch, RunnersUpAreSlowerAndOfOtherDegrees) {
  const SearchResult found = search_layouts(small_question(16, 40), {.top = 6});
  ASSERT_EQ(found.best.size(), 6u);
  for (std::size_t i = 1; i < found.best.size(); ++i) {
    EXPECT_GE(found.best[i].time.step_s, found.best[i - 1].time.step_s);
    const auto& a = found.best[i - 1].setting;
    const auto& b = found.best[i].setting;
    EXPECT_FALSE(a.layout.pp == b.layout.pp && a.layout.tp == b.layout.tp && a.layout.cp == b.layout.cp &&
                 a.layout.ep == b.layout.ep && a.layout.etp == b.layout.etp &&
                 a.batch.micro_batch == b.batch.micro_batch);
  }
}

Estimate point(double rate, double headroom) {
  Estimate e;
  e.setting.num_devices = 1, e.time.tokens_per_s_per_device = rate, e.headroom_bytes = headroom;
  return e;
}

// (5, 1), (4, 3) and (1, 7) are on the front; (3, 2) and (4, 2) are beaten by (4, 3).
TEST(Pareto, KeepsWhatNothingBeats) {
  const auto front = pareto_front(
      {point(3, 2), point(5, 1), point(1, 7), point(4, 2), point(4, 3)},
      [](const Estimate& e) { return e.tokens_per_s(); }, [](const Estimate& e) { return e.headroom_bytes; });
  std::vector<double> rates;
  for (const Estimate& e : front) rates.push_back(e.tokens_per_s());
  EXPECT_THAT(rates, testing::ElementsAre(5, 4, 1));
}

}  // namespace
}  // namespace trireme::search
