#include "comm/pattern_race.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/errors.h"
#include "comm/link_probe.h"
#include "comm/pattern_exchange.h"
#include "comm/timed_batches.h"
#include "comm/token_exchange.h"
#include "plan/all_to_all/generators.h"

namespace trireme::comm {
namespace {

plan::TokenDraw draw_of(int members, double bytes_per_pair, const RaceOptions& options) {
  return {.members = members,
          .bytes_per_pair = bytes_per_pair,
          .top_k = options.top_k,
          .experts = options.experts,
          .seed = options.seed};
}

int per_member(int members, const RaceOptions& options) {
  return draw_of(members, 0, options).per_member();
}

// One pattern ready to run on one size's tokens.
class Runner {
 public:
  Runner(Group& group, const plan::NodeShape& shape, const std::string& name, const RacedTokens& raced,
         const RaceOptions& options, const at::Tensor& tokens_TD)
      : tokens_TD_(tokens_TD) {
    const plan::Pattern pattern = plan::make_pattern(name, shape, {.in_flight = options.in_flight});
    const int members = group.size(), local = per_member(members, options);
    const auto& own = raced.experts[static_cast<std::size_t>(group.rank())];
    if (plan::needs_tokens(pattern)) {
      at::Tensor experts_TK = at::empty({raced.tokens, options.top_k}, at::kLong);
      std::int64_t* e = experts_TK.mutable_data_ptr<std::int64_t>();
      for (const auto& token : own)
        for (const int expert : token) *e++ = expert;
      tokens_ = std::make_unique<TokenExchange>(group, pattern, local * members);
      route_ = tokens_->route(experts_TK, "probe");
      return;
    }
    // Rows by expert, then token, as a permutation makes them.
    std::vector<std::pair<int, std::int64_t>> order;
    std::vector<std::int64_t> counts(static_cast<std::size_t>(members), 0);
    for (std::size_t t = 0; t < own.size(); ++t)
      for (const int expert : own[t]) {
        order.emplace_back(expert, static_cast<std::int64_t>(t));
        ++counts[static_cast<std::size_t>(expert / local)];
      }
    std::sort(order.begin(), order.end());
    std::vector<std::int64_t> rows;
    for (const auto& [expert, token] : order) rows.push_back(token);
    rows_RD_ = tokens_TD.index_select(0, at::tensor(rows, at::kLong).to(group.device)).contiguous();
    blocks_ = std::make_unique<PatternExchange>(group, pattern);
    counts_ = std::make_unique<BlockCounts>(blocks_->exchange_counts(counts, "probe"));
  }

  at::Tensor run() {
    return tokens_ ? tokens_->dispatch(route_, tokens_TD_, "probe") : blocks_->dispatch(rows_RD_, *counts_, "probe");
  }

 private:
  at::Tensor tokens_TD_, rows_RD_;
  std::unique_ptr<PatternExchange> blocks_;
  std::unique_ptr<BlockCounts> counts_;
  std::unique_ptr<TokenExchange> tokens_;
  TokenRoute route_;
};

}  // namespace

RacedTokens raced_tokens(int members, double bytes_per_pair, const RaceOptions& options) {
  TRIREME_CHECK(options.top_k <= per_member(members, options) * members);
  return plan::draw_tokens(draw_of(members, bytes_per_pair, options));
}

plan::TokenRoutes routes_of(const RacedTokens& tokens, const plan::NodeShape& shape, const RaceOptions& options) {
  plan::TokenRoutes::Slots slots = tokens.experts;
  for (auto& member : slots)
    for (auto& token : member)
      for (int& slot : token) slot /= per_member(shape.size(), options);
  return plan::TokenRoutes(shape, slots);
}

std::vector<RacePoint> race_patterns(Group& group, const plan::NodeShape& shape, const RaceOptions& options) {
  std::vector<RacePoint> out;
  for (const double bytes : options.bytes_per_pair) {
    const RacedTokens raced = raced_tokens(group.size(), bytes, options);
    const auto width = static_cast<std::int64_t>(raced.row_bytes / 4);
    const at::Tensor tokens_TD =
        (at::arange(raced.tokens * width, at::TensorOptions(at::kFloat).device(group.device)) + group.rank() * 0.25)
            .reshape({raced.tokens, width});
    std::vector<std::unique_ptr<Runner>> runners;
    std::vector<std::unique_ptr<TimedBatches>> timed;
    std::vector<std::vector<double>> samples(options.patterns.size());
    at::Tensor first;
    for (const std::string& name : options.patterns) {
      runners.push_back(std::make_unique<Runner>(group, shape, name, raced, options, tokens_TD));
      const at::Tensor rows = runners.back()->run();
      if (!first.defined()) first = rows;
      if (!at::equal(rows, first))
        group.fail("probe " + name, -1, "other rows arrived than by " + options.patterns.front());
    }
    for (auto& runner : runners)
      timed.push_back(std::make_unique<TimedBatches>(
          group, [&] { runner->run(); }, options.batch_s));
    for (int i = 0; i < options.samples; ++i)
      for (std::size_t p = 0; p < timed.size(); ++p) samples[p].push_back(timed[p]->sample());
    for (std::size_t p = 0; p < timed.size(); ++p) {
      const LinkPoint point = summarise(bytes, samples[p]);
      out.push_back({.pattern = options.patterns[p],
                     .bytes_per_pair = bytes,
                     .median_s = point.median_s,
                     .p99_s = point.p99_s,
                     .max_s = *std::max_element(samples[p].begin(), samples[p].end()),
                     .samples = point.samples,
                     .busy_cores = timed[p]->busy_cores()});
      if (options.progress)
        options.progress(
            fmt::format("{} of {:.0f} bytes a pair: {:.3g} ms", options.patterns[p], bytes, point.median_s * 1e3));
    }
  }
  return out;
}

}  // namespace trireme::comm
