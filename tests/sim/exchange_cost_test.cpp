#include "sim/exchange_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/exchange_choice.h"
#include "sim/predicted_phases.h"
#include "sim/rates/probed_rates.h"

namespace trireme::sim {
namespace {

using model::Pass;
using model::Segment;
using ::testing::ElementsAre;

// Four ranks on two hosts; 16 tokens of 8 float32 (32 bytes) to 2 of 4 experts, one on each rank.
plan::RunSpec run_of(std::int64_t hidden = 8) {
  plan::RunSpec r;
  r.model = {.name = "m", .vocab_size = 50, .hidden = hidden, .num_layers = 1, .num_dense_layers = 0,
             .attention = {.num_heads = 2, .num_kv_heads = 1, .head_dim = 4},
             .moe = {.num_experts = 4, .expert_ffn = 6, .router = {.top_k = 2}}};
  r.layout.ep = 4;
  r.batch = {.sequence_length = 16, .micro_batch = 1, .global_batch = 4};
  return r;
}
const plan::Mesh mesh{.dp = 4, .ep = 4, .ranks_of_host = {2, 2}};

// On a host 1 ns a byte, between them 10 ns, and nothing a message.
platform::PlatformSpec platform_of() {
  platform::PlatformSpec p;
  p.device.peaks = {{.flops_per_s = 1e9}};
  p.shared_links = {{.level = "host", .bytes_per_s = 1e9}, {.level = "network", .bytes_per_s = 1e8}};
  return p;
}

std::vector<std::string> names(const std::vector<ExchangeLeg>& legs) {
  std::vector<std::string> out;
  for (const ExchangeLeg& p : legs) out.push_back(p.what);
  return out;
}

TEST(ExchangeCost, HasTheMessagesOfARun) {
  const ProbedRates rates(platform_of(), DType::float32, 1, 2);
  const MessageCost messages(mesh, rates);
  const plan::RunSpec run = run_of();
  const auto legs = [&](const char* pattern, Segment s, Pass pass) {
    return names(ExchangeCost(run, mesh, messages, pattern, 0).legs(s, pass));
  };
  EXPECT_THAT(legs("flat", Segment::dispatch, Pass::forward), ElementsAre("counts", "rows", "scores"));
  EXPECT_THAT(legs("halo", Segment::dispatch, Pass::forward), ElementsAre("counts", "block counts", "rows", "scores"));
  EXPECT_THAT(legs("dedup", Segment::dispatch, Pass::forward), ElementsAre("counts", "experts", "rows", "scores"));
  EXPECT_THAT(legs("dedup", Segment::combine, Pass::forward), ElementsAre("rows"));
  EXPECT_THAT(legs("halo", Segment::combine, Pass::backward), ElementsAre("rows"));
  EXPECT_THAT(legs("halo", Segment::dispatch, Pass::backward), ElementsAre("rows", "scores"));
}

TEST(ExchangeCost, CountsATokenOnceForANode) {
  const ProbedRates rates(platform_of(), DType::float32, 1, 2);
  const MessageCost messages(mesh, rates);
  const plan::RunSpec run = run_of();
  const auto remote = [&](const char* pattern, Segment s, Pass pass, std::size_t part) {
    const auto legs = ExchangeCost(run, mesh, messages, pattern, 0).legs(s, pass);
    for (const PhaseTime& phase : legs.at(part).time.phases)
      if (phase.name == "remote") return phase.end_s - phase.begin_s;
    return -1.0;
  };
  // A block has 16 x 2 / 4 = 8 rows, so two ranks of a host send 2 x 16 rows over its card, 32 bytes and 10 ns each: 10.24 us.
  EXPECT_NEAR(remote("halo", Segment::combine, Pass::forward, 0), 10.24e-6, 1e-9);
  // A token misses a host's 2 of 4 experts with C(2,2) / C(4,2) = 1/6: 13 1/3 of 16 cross once: 2 x 13.333 x 320 ns.
  EXPECT_NEAR(remote("dedup", Segment::combine, Pass::forward, 0), 8.5333e-6, 1e-9);
  // Their scores, 2 of 4 bytes for each token that crosses: 2 x 13.333 x 8 bytes x 10 ns.
  EXPECT_NEAR(remote("dedup", Segment::dispatch, Pass::backward, 1), 2.1333e-6, 1e-9);
}

TEST(ExchangeCost, PartsFollowOneAnother) {
  const auto spans = phase_spans({{.what = "counts", .time = {.seconds = 3, .phases = {{"direct", 0, 3}}}},
                                  {.what = "rows", .time = {.seconds = 5, .phases = {{"local", 0, 1}, {"remote", 0, 5}}}}});
  EXPECT_THAT(spans, ElementsAre(plan::PhaseSpan{-1, "counts", "direct", 0, 3}, plan::PhaseSpan{-1, "rows", "local", 3, 4},
                                 plan::PhaseSpan{-1, "rows", "remote", 3, 8}));
}

TEST(ChooseExchange, TakesTheLeastPriceOfALayer) {
  const ProbedRates rates(platform_of(), DType::float32, 1, 2);
  const plan::RunSpec small = run_of();
  const Choice choice = choose_exchange(small, mesh, rates);
  ASSERT_EQ(choice.ranked.size(), 8u);  // all but halo3
  for (std::size_t i = 1; i < choice.ranked.size(); ++i) EXPECT_LE(choice.ranked[i - 1].seconds, choice.ranked[i].seconds);
  // Wide rows over a slow network: dedup, which sends least of them.
  EXPECT_EQ(choose_exchange(run_of(1 << 16), mesh, rates).pick().pattern, "dedup");
  EXPECT_EQ(choose_exchange(small, mesh, rates).ranked, choice.ranked);  // pure
  plan::RunSpec alone = small;
  alone.layout.ep = 1;
  EXPECT_EQ(choose_exchange(alone, {.dp = 4}, rates).ranked, (std::vector<Candidate>{{"flat", 0}}));
}

TEST(ExchangePhases, PutAWaitBeforeAndShortenWhatTookLess) {
  plan::Plan plan{.mesh = {.dp = 2, .ep = 2}};
  plan.stages.resize(1);
  for (int id = 0; id < 2; ++id)
    plan.stages[0].actions.push_back({.id = id, .kind = plan::ActionKind::all_to_all, .segment = Segment::dispatch, .lane = plan::Lane::ep});
  plan::Costs costs;
  costs.stages = {{.action_s = {4, 4},
                   .exchanges = {{Segment::dispatch, false, {{-1, "counts", "direct", 0, 1}, {-1, "rows", "direct", 1, 4}}}}}};
  // Ten seconds for four: six of waiting. Two for four: everything in half the time.
  const auto phases = predicted_phases(plan, costs, {.spans = {{100, 110}, {200, 202}}});
  EXPECT_THAT(phases, ElementsAre(plan::PhaseSpan{0, "counts", "direct", 100, 107}, plan::PhaseSpan{0, "rows", "direct", 107, 110},
                                  plan::PhaseSpan{1, "counts", "direct", 200, 200.5},
                                  plan::PhaseSpan{1, "rows", "direct", 200.5, 202}));
}

}  // namespace
}  // namespace trireme::sim
