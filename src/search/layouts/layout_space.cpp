#include "search/layouts/layout_space.h"

#include <algorithm>
#include <cmath>

#include "plan/all_to_all/generators.h"
#include "plan/pipeline/generators.h"
#include "search/layouts/layout_rules.h"
#include "sim/estimate/layer_time.h"

namespace trireme::search {

namespace {

using plan::Recompute;
using plan::Sharding;
using sim::Setting;

std::vector<int> divisors(std::int64_t number, std::int64_t at_most) {
  std::vector<int> out;
  for (std::int64_t d = 1; d <= std::min(number, at_most); ++d)
    if (number % d == 0) out.push_back(static_cast<int>(d));
  return out;
}

template <class T>
std::vector<T> choices(const Question& q, const char* key, T given, std::vector<T> otherwise) {
  return q.is_given(key) ? std::vector<T>{given} : std::move(otherwise);
}

void push_if_new(std::vector<int>& list, int value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

constexpr int most_chunks = 8;

int whole(const sim::UnitLevel& level) { return std::isfinite(level.devices) ? static_cast<int>(level.devices) : 1 << 20; }

}  // namespace

int innermost_devices(const Target& target) {
  return whole(target.rates->units().front());
}

namespace {

// Only among patterns that the layer's other operators and its memory don't tell apart is the faster the better.
bool alike(const std::string& a, const std::string& b) {
  const auto asks = [](const std::string& pattern) {
    const model::RowExchange of = sim::row_exchange(pattern);
    return of == model::RowExchange::gathered ? model::RowExchange::tokens : of;
  };
  return asks(a) == asks(b);
}

// The different sizes of a layer's exchanges, as the links carry them.
std::vector<double> exchange_bytes(const Setting& s) {
  std::vector<double> out;
  int layer = 0;
  while (layer + 1 < s.model.num_layers && !s.model.is_moe(layer)) ++layer;
  sim::OperatorList operators;
  sim::add_layer_operators(s, layer, operators);
  for (const sim::Operator& op : operators)
    if (op.kind == sim::OperatorKind::collective && op.collective == sim::CollectiveKind::exchange)
      if (const double bytes = op.message / s.execution.exchange_links;
          std::find(out.begin(), out.end(), bytes) == out.end())
        out.push_back(bytes);
  return out;
}

bool beats(const std::vector<sim::ExchangeTime>& a, const std::vector<sim::ExchangeTime>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].alone_s > b[i].alone_s || a[i].outside_s > b[i].outside_s || a[i].inside_s > b[i].inside_s) return false;
  return true;
}

}  // namespace

std::vector<std::string> patterns_of(const Question& q, const Setting& s) {
  if (q.is_given("layout.all_to_all")) return {q.base.layout.all_to_all};
  if (s.layout.ep <= 1) return {"flat"};
  const sim::Rates& rates = *q.target.rates;
  const plan::GroupPlace group = plan::mesh_of(s.layout).strides().place(Axis::ep);
  const plan::NodeShape shape = rates.shape_of(group);
  struct Candidate {
    std::string pattern;
    std::vector<sim::ExchangeTime> times;
  };
  std::vector<Candidate> kept;
  const std::vector<double> sizes = exchange_bytes(s);
  for (const std::string& pattern : plan::priced_pattern_names(shape)) {
    const model::RowExchange asks = sim::row_exchange(pattern);
    // On one node there is nothing to combine.
    if (shape.num_nodes() == 1 && (asks == model::RowExchange::packed || asks == model::RowExchange::staged)) continue;
    const sim::ExchangeTable& table = rates.exchange_table(pattern, group, sim::router_of(s.model));
    Candidate c{.pattern = pattern, .times = {}};
    for (const double bytes : sizes) c.times.push_back(table.at(bytes));
    if (std::any_of(kept.begin(), kept.end(),
                    [&](const Candidate& k) { return alike(k.pattern, pattern) && beats(k.times, c.times); }))
      continue;
    std::erase_if(kept, [&](const Candidate& k) { return alike(k.pattern, pattern) && beats(c.times, k.times); });
    kept.push_back(std::move(c));
  }
  std::vector<std::string> out;
  for (const Candidate& c : kept) out.push_back(c.pattern);
  return out;
}

std::vector<Cell> cells_of(const Question& q) {
  const Setting& b = q.base;
  const model::ModelSpec& m = b.model;
  const std::int64_t devices = b.num_devices;
  const int inner = std::max(16, std::min(innermost_devices(q.target), 128));
  const auto given = b.layout;
  const bool moe = m.moe.num_experts > 0;
  Setting s = b;
  std::vector<Cell> out;
  for (const int pp : choices(q, "layout.pp", given.pp, divisors(devices, m.num_layers + m.mtp_depth)))
    for (const int tp : choices(q, "layout.tp", given.tp, divisors(devices, std::min(inner, m.attention.num_heads))))
      for (const int cp : choices(q, "layout.cp", given.cp,
                                  divisors(devices, std::clamp<std::int64_t>(b.batch.sequence_length / 2048, 1, 64)))) {
        Cell cell{.pp = pp, .tp = tp, .cp = cp};
        s.layout.pp = pp, s.layout.tp = tp, s.layout.cp = cp;
        cell.dp = s.layout.dp = q.is_given("layout.dp") ? given.dp : data_degree(s);
        if (cell.dp == 0 || data_degree(s) != cell.dp) continue;
        const std::int64_t ranks = std::int64_t{1} * cell.dp * cp * tp;
        for (const int ep :
             choices(q, "layout.ep", given.ep, moe ? divisors(m.moe.num_experts, ranks) : std::vector<int>{1}))
          for (const int etp :
               choices(q, "layout.etp", given.etp,
                       moe ? divisors(m.moe.expert_ffn, std::min<std::int64_t>(inner, ranks)) : std::vector<int>{1}))
            for (const std::int64_t mb :
                 choices<std::int64_t>(q, "batch.micro_batch", b.batch.micro_batch, {1, 2, 4, 8, 16})) {
              cell.ep = ep, cell.etp = etp, cell.micro_batch = mb;
              apply(cell, s);
              if (holds(degree_rules(), s)) out.push_back(cell);
            }
      }
  return out;
}

std::vector<Family> families_of(const Question& q, const Cell& cell) {
  Setting s = q.base;
  apply(cell, s);
  return families_of(q, cell, patterns_of(q, s));
}

std::vector<Family> families_of(const Question& q, const Cell& cell, const std::vector<std::string>& patterns) {
  const plan::LayoutSpec& given = q.base.layout;
  std::vector<Family> out;
  const auto schedules = choices(q, "layout.schedule", given.schedule, plan::schedule_names());
  const bool exchanges = cell.ep > 1;
  const auto splits =
      choices(q, "layout.stage_layers", Split::as_given,
              cell.pp == 1 ? std::vector<Split>{Split::even}
                           : std::vector<Split>{Split::even, Split::balanced_early, Split::balanced_late});
  for (const std::string& schedule : schedules) {
    // On one stage all of them run micro-batch after micro-batch, or joined.
    if (cell.pp == 1 && schedules.size() > 1 && schedule != "1f1b" && schedule != "merged_1f1b") continue;
    std::vector<int> chunks = {plan::chunks_a_stage(schedule)};
    if (schedule == "interleaved_1f1b" || schedule == "merged_1f1b")
      for (int v = 2; v <= most_chunks && cell.pp > 1; ++v) push_if_new(chunks, v);
    // Only a forward joined with a backward has compute to hide the other's messages behind.
    const bool joins = schedule == "merged_1f1b" || schedule == "dualpipe_v";
    for (const int v : choices(q, "layout.virtual_stages", given.virtual_stages, chunks))
      for (const std::string& pattern : patterns)
        for (const bool overlap :
             choices<bool>(q, "layout.overlap.experts", given.overlap.experts,
                           exchanges && joins ? std::vector<bool>{true, false} : std::vector<bool>{false}))
          for (const Split split : splits) out.push_back({schedule, v, pattern, overlap, split});
  }
  return out;
}

std::vector<Recomputation> recomputations_of(const Question& q, int most_layers) {
  const plan::LayoutSpec& given = q.base.layout;
  const model::ModelSpec& m = q.base.model;
  const auto add = [](plan::RecomputeSet set, Recompute part) {
    set.add(part);
    return set;
  };
  std::vector<plan::RecomputeSet> sets;
  if (q.is_given("layout.recompute")) {
    sets.push_back(given.recompute);
  } else {
    std::vector<Recompute> parts = {Recompute::norm, Recompute::activation};
    if (m.attention.kind == model::AttentionKind::latent) parts.push_back(Recompute::mla_up_projection);
    if (m.moe.num_experts > 0) parts.push_back(Recompute::permute);
    if (!q.base.execution.fused_attention) parts.push_back(Recompute::core_attention);
    sets.push_back({});
    for (const Recompute part : parts)  // every subset
      for (std::size_t i = 0, n = sets.size(); i < n; ++i) sets.push_back(add(sets[i], part));
    plan::RecomputeSet fine;
    for (const Recompute part : parts) fine.add(part);
    const std::vector<Recompute> blocks = m.moe.num_experts > 0
                                              ? std::vector<Recompute>{Recompute::attention, Recompute::moe}
                                              : std::vector<Recompute>{Recompute::attention, Recompute::mlp};
    for (const Recompute block : blocks) {
      sets.push_back(add({}, block));
      sets.push_back(add(fine, block));
    }
    sets.push_back(add({}, Recompute::layer));
  }
  std::vector<Recomputation> out;
  for (const plan::RecomputeSet set : sets) {
    std::vector<int> layers = {0};
    if (set.has(Recompute::layer) && !q.is_given("layout.recompute"))
      for (int quarter = 1; quarter <= 3; ++quarter)
        if (const int n = most_layers * quarter / 4; n > 0 && n < most_layers) push_if_new(layers, n);
    for (const int n : choices(q, "layout.recompute_layers", given.recompute_layers, layers)) out.push_back({set, n});
  }
  return out;
}

std::vector<States> states_of(const Question& q, const Cell& cell) {
  const plan::LayoutSpec& given = q.base.layout;
  Setting setting = q.base;
  apply(cell, setting);
  const plan::AxisStrides strides = plan::mesh_of(setting.layout).strides();
  const plan::GroupPlace data = strides.place(Axis::dp | Axis::cp), experts = strides.place(Axis::edp);
  const int unit = innermost_devices(q.target);
  // Sets of shards inside one unit of the fabric, and inside eight.
  const auto degrees = [&](const char* key, int given_degree, const plan::GroupPlace& group) {
    const int ranks = static_cast<int>(group.size);
    std::vector<int> out = {0};
    if (!q.is_given(key)) {
      for (const int units : {1, 8})
        if (const int shards = static_cast<int>(group.members_within(units * unit));
            shards > 1 && shards < ranks && ranks % shards == 0)
          push_if_new(out, shards);
    }
    return q.is_given(key) ? std::vector<int>{given_degree} : out;
  };
  const bool several = data.size > 1 || experts.size > 1;
  const auto levels = choices<Sharding>(
      q, "layout.sharding", given.sharding,
      several ? std::vector<Sharding>{Sharding::optimizer, Sharding::none, Sharding::gradients, Sharding::parameters}
              : std::vector<Sharding>{Sharding::none});
  const bool can_swap = q.target.host_capacity_bytes > 0 && q.target.rates->fixed().host_bytes_per_s > 0;
  std::vector<plan::SwapSet> swaps = {given.swap};
  if (!q.is_given("layout.swap"))
    swaps = can_swap ? std::vector<plan::SwapSet>{{0}, {1}, {2}, {3}} : std::vector<plan::SwapSet>{{0}};
  std::vector<States> out;
  for (const Sharding level : levels) {
    const bool hybrid = level == Sharding::parameters;
    const std::vector<int> whole = {0};
    const auto dense_degrees = hybrid || q.is_given("layout.shard_degree")
                                   ? degrees("layout.shard_degree", given.shard_degree, data)
                                   : whole;
    const auto expert_degrees =
        hybrid || q.is_given("layout.expert_shard_degree")
            ? degrees("layout.expert_shard_degree", given.expert_shard_degree, experts)
            : whole;
    // Gathered ahead or reduced late, whole layers lie in memory: only where they are sharded does that matter.
    const bool late = level == Sharding::parameters || level == Sharding::gradients;
    for (const int d : dense_degrees)
      for (const int e : expert_degrees)
        for (const bool gradients : choices<bool>(q, "layout.overlap.gradients", given.overlap.gradients,
                                                  late ? std::vector<bool>{true, false} : std::vector<bool>{true}))
          for (const bool parameters :
               choices<bool>(q, "layout.overlap.parameters", given.overlap.parameters,
                             level == Sharding::parameters ? std::vector<bool>{true, false} : std::vector<bool>{true}))
            for (const plan::SwapSet swap : swaps) out.push_back({level, d, e, swap, gradients, parameters});
  }
  return out;
}

void apply(const Cell& c, Setting& s) {
  plan::LayoutSpec& l = s.layout;
  l.pp = c.pp, l.tp = c.tp, l.cp = c.cp, l.ep = c.ep, l.etp = c.etp, l.dp = c.dp;
  s.batch.micro_batch = c.micro_batch;
}

void apply(const Family& f, Setting& s) {
  s.layout.schedule = f.schedule, s.layout.virtual_stages = f.virtual_stages, s.layout.all_to_all = f.all_to_all;
  s.layout.overlap.experts = f.overlap_experts;
}

void apply(const Recomputation& r, Setting& s) {
  s.layout.recompute = r.set, s.layout.recompute_layers = r.layers;
}

void apply(const States& t, Setting& s) {
  plan::LayoutSpec& l = s.layout;
  l.sharding = t.sharding, l.shard_degree = t.shard_degree, l.expert_shard_degree = t.expert_shard_degree,
  l.swap = t.swap;
  l.overlap.gradients = t.overlap_gradients, l.overlap.parameters = t.overlap_parameters;
}

}  // namespace trireme::search
