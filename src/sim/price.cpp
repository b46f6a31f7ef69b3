#include "sim/price.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "model/parameter_parts.h"
#include "model/parameters.h"
#include "sim/core_sharing.h"
#include "sim/exchange_cost.h"
#include "sim/memory_cost.h"
#include "sim/message_cost.h"

namespace trireme::sim {

using model::Segment;
using plan::Action;
using plan::ActionKind;
using plan::Pass;

namespace {

constexpr double metrics_bytes = 128;  // losses, norm and flags in float64

const char* layer_name(const model::ModelSpec& spec, int layer) {
  return layer < 0 ? "end" : spec.is_moe(layer) ? "moe" : "dense";
}

class Pricer {
 public:
  Pricer(const plan::Plan& plan, const plan::RunSpec& run, const Rates& rates, int threads)
      : plan_(plan), run_(run), threads_(threads), rates_(rates), messages_(plan_.mesh, rates),
        shape_(segment_shape(run, plan.mesh, threads, !plan.schedule.forward_only)) {
    if (plan.mesh.ep > 1 && run.model.num_moe_layers() > 0)
      for (int s = 0; s < plan.mesh.pp; ++s) exchanges_.emplace_back(run, plan.mesh, messages_, plan.all_to_all, s);
  }

  Priced run() {
    Priced out{.notes = rates_.notes(), .threads = threads_, .measured = rates_.measured()};
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      const plan::StagePlan& stage = plan_.stages[s];
      plan::StageCosts costs;
      for (const Action& a : stage.actions) {
        costs.action_s.push_back(seconds(stage, static_cast<int>(s), a, out.terms));
        costs.action_workspace_bytes.push_back(workspace(stage, a));
      }
      costs.exchanges = exchange_costs(stage, static_cast<int>(s));
      for (const plan::Buffer& b : stage.buffers) costs.buffer_bytes.push_back(bytes(b));
      out.constant.push_back(constant_parts(run_, plan_.mesh, stage));
      for (const plan::MemoryPart& part : out.constant.back()) costs.constant_bytes += part.bytes;
      out.costs.stages.push_back(std::move(costs));
    }
    return out;
  }

 private:
  // What a price depends on: equal layers cost the same, so each is priced once.
  using Key = std::tuple<ActionKind, Pass, Segment, bool, int, int>;

  double seconds(const plan::StagePlan& stage, int s, const Action& a, std::vector<Term>& terms) {
    // The first load of a step also zeroes the gradients.
    const bool per_stage = a.lane != plan::Lane::compute || a.segment == Segment::none;
    const Key key{a.kind, a.pass, a.segment, a.layer >= 0 && run_.model.is_moe(a.layer), per_stage ? s : -1,
                  a.kind == ActionKind::load_batch ? a.mb == 0 : a.bucket >= 0 ? a.bucket : a.peer_stage};
    const auto [at, fresh] = seconds_.try_emplace(key, 0);
    if (!fresh) return at->second;
    std::vector<Term> parts;
    const bool computes = computes_segment(a.kind);
    at->second = computes ? segment(a, parts) : other(stage, s, a, parts);
    // The slowest of many equal devices sets the pipeline's pace.
    if (a.mb >= 0) at->second *= 1 + rates_.fixed().noise;
    Action named = a;
    named.mb = -1;
    const std::string name = per_stage ? fmt::format("stage {}: {}", s, plan::describe(named)) : plan::describe(named);
    if (parts.size() == 1)
      terms.push_back({name, at->second, parts[0].source, parts[0].formula});
    else
      terms.push_back({name, at->second, "the sum of", computes || parts.empty() ? "price.md#segment" : parts.front().formula});
    if (parts.size() > 1)
      for (Term& part : parts) terms.push_back({"  " + part.what, part.seconds, part.source, part.formula});
    return at->second;
  }

  double segment(const Action& a, std::vector<Term>& parts) const {
    const auto operators = operators_of(run_.model, a, shape_);
    double device = 0;
    for (const auto& op : operators) {
      parts.push_back(explain_operator(op, rates_));
      device += parts.back().seconds;
    }
    const double sum = operators_time(operators, rates_).value;
    if (sum > device * (1 + 1e-9)) parts.push_back({"waiting for the host", sum - device, fmt::format("{:.1f} us for each launch", rates_.fixed().launch_s * 1e6), "price.md#launch"});
    const double factor = rates_.segment_factor({.segment = model::name_of(a.segment),
                                                 .layer = layer_name(run_.model, a.layer),
                                                 .pass = a.pass == Pass::forward ? "forward" : "backward",
                                                 .tokens = static_cast<double>(shape_.tokens()),
                                                 .experts = static_cast<double>(shape_.local_experts)});
    if (factor != 1 && sum > 0) parts.push_back({"the rest", sum * (factor - 1), fmt::format("the segment as a whole took {:.2f} times its operators", factor), "price.md#segment"});
    return sum * factor;
  }

  Term reduction(const plan::GroupKind& kind, int s, double bytes) const {
    const GroupPlace group = messages_.place(kind, s);
    const double t = messages_.all_reduce(kind, s, bytes).value;
    if (group.size == 1) return {"all-reduce", t, "one member: nothing to do", "price.md#collective"};
    return {"all-reduce", t, fmt::format("{:.1f} KiB over {} ranks, {} links ({})", bytes / KiB, group.size,
                                         rates_.leaves_node(group) ? "network" : "host", rates_.origin()), "price.md#collective"};
  }

  double other(const plan::StagePlan& stage, int s, const Action& a, std::vector<Term>& parts) const {
    const double tokens = static_cast<double>(shape_.tokens());
    const double size = size_of(run_.device.dtype), wide = size_of(accumulate_dtype(run_.device.dtype));
    const auto one = [&](Term term) { return parts.push_back(std::move(term)), parts.back().seconds; };
    const auto memory = [&](const char* what, platform::MemoryUse use, double bytes, int calls) {
      const double pass = rates_.memory_s(use, bytes);
      return one({what, pass + rates_.fixed().operation_s * calls,
                  fmt::format("{:.0f} KiB at {:.1f} GB/s", bytes / KiB, pass > 0 ? bytes / pass / GBps : 0),
                  use == platform::MemoryUse::optimizer ? "price.md#optimizer" : "price.md#memory-pass"});
    };
    switch (a.kind) {
      case ActionKind::load_batch: {
        double seconds = memory("batch", platform::MemoryUse::copy, 2 * tokens * 36, 6);
        if (a.mb == 0 && !plan_.schedule.forward_only)
          seconds += memory("zeroing gradients", platform::MemoryUse::optimizer, stage_parameters(run_, plan_.mesh, stage).total() * wide, 1);
        return seconds;
      }
      case ActionKind::count_tokens: return one(reduction(a.group, s, 16));
      case ActionKind::reduce_metrics: return one(reduction(a.group, s, metrics_bytes));
      case ActionKind::reduce_counts: return one(reduction(a.group, s, 8.0 * run_.model.moe.num_experts * moe_layers(stage)));
      case ActionKind::reduce:
        return one(reduction(a.group, s, stage.buckets[a.bucket].elements * size_of(run_.device.reduce_dtype)));
      case ActionKind::reduce_embedding:
        return one(reduction(a.group, s, double(model::table_parameters(run_.model)) * size_of(run_.device.reduce_dtype)));
      case ActionKind::send:
      case ActionKind::receive: {
        const double bytes = tokens * run_.model.hidden * size;
        return one({"message", messages_.between_stages(s, a.peer_stage, bytes).value, fmt::format("{:.1f} KiB", bytes / KiB), "price.md#collective"});
      }
      case ActionKind::all_to_all: return exchange(a, s, parts);
      case ActionKind::gradient_norm:
        return memory("gradients", platform::MemoryUse::optimizer, trained_parameters(run_, plan_.mesh, stage).total() * wide, 1);
      case ActionKind::optimizer: {
        // Reads gradient, master and both moments, writes all but the gradient; the value too where it is not the master.
        const double elements = trained_parameters(run_, plan_.mesh, stage).total();
        return memory("AdamW", platform::MemoryUse::optimizer, elements * (7 * wide + (size == wide ? 0 : size)), 1);
      }
      default: return one({"", 0, "nothing"});
    }
  }

  const ExchangeCost& exchange(int s) const { return exchanges_.at(static_cast<std::size_t>(s)); }

  double exchange(const Action& a, int s, std::vector<Term>& parts) const {
    const int p = plan_.mesh.ep;
    double sum = 0;
    for (const ExchangeLeg& leg : exchange(s).legs(a.segment, a.pass)) {
      parts.push_back({leg.what, leg.time.seconds,
                       fmt::format("{:.1f} KiB to {} by {} ({})", leg.rows * leg.row_bytes / KiB, p - 1, plan_.all_to_all, rates_.origin()), "price.md#exchange"});
      for (const PhaseTime& phase : leg.time.phases)
        if (leg.time.phases.size() > 1)
          parts.push_back({"  " + phase.name, phase.end_s - phase.begin_s, fmt::format("from {:.3g} ms", phase.begin_s * 1e3), "price.md#exchange"});
      sum += leg.time.seconds;
    }
    return sum;
  }

  std::vector<plan::ExchangeCosts> exchange_costs(const plan::StagePlan& stage, int s) const {
    std::vector<plan::ExchangeCosts> out;
    for (const Action& a : stage.actions) {
      const bool backward = a.pass == Pass::backward;
      if (a.kind != ActionKind::all_to_all ||
          std::any_of(out.begin(), out.end(), [&](const auto& e) { return e.segment == a.segment && e.backward == backward; }))
        continue;
      out.push_back({a.segment, backward, phase_spans(exchange(s).legs(a.segment, a.pass))});
    }
    return out;
  }

  double moe_layers(const plan::StagePlan& stage) const {
    int n = 0;
    for (const plan::Chunk& c : stage.chunks)
      for (int layer = c.first_layer; layer < c.first_layer + c.num_layers; ++layer) n += run_.model.is_moe(layer);
    return n;
  }

  double bytes(const plan::Buffer& b) {
    const auto key = std::make_tuple(b.kind, b.segment, b.message, b.to_shared, b.layer >= 0 && run_.model.is_moe(b.layer));
    const auto [at, fresh] = bytes_.try_emplace(key, 0);
    if (fresh) at->second = buffer_bytes(run_, shape_, b);
    return at->second;
  }

  double workspace(const plan::StagePlan& stage, const Action& a) {
    if (a.segment == Segment::none) return workspace_bytes(run_, shape_, stage, a);
    const Key key{a.kind, a.pass, a.segment, a.layer >= 0 && run_.model.is_moe(a.layer), -1, -1};
    const auto [at, fresh] = workspace_.try_emplace(key, 0);
    if (fresh) at->second = workspace_bytes(run_, shape_, stage, a);
    return at->second;
  }

  const plan::Plan& plan_;
  const plan::RunSpec& run_;
  int threads_;
  const Rates& rates_;
  MessageCost messages_;
  model::SegmentShape shape_;
  std::vector<ExchangeCost> exchanges_;  // by stage; none where nothing is exchanged
  std::map<Key, double> seconds_, workspace_;
  std::map<std::tuple<plan::BufferKind, Segment, bool, bool, bool>, double> bytes_;
};

}  // namespace

int threads_of_rank(const plan::RunSpec& run, const platform::PlatformSpec& platform, int world) {
  if (platform.device.kind != "cpu") return 0;
  if (run.device.threads > 0) return run.device.threads;
  return std::max(1, platform.host.cores / ranks_of_machine(platform.host, world));
}

std::unique_ptr<Rates> rates_of_run(const plan::RunSpec& run, const plan::Mesh& mesh,
                                    const platform::PlatformSpec& platform, const Software& software) {
  const auto& hosts = mesh.ranks_of_host;
  return make_rates(platform, software,
                    {.dtype = run.device.dtype,
                     .threads = threads_of_rank(run, platform, mesh.world()),
                     .ranks_per_host = hosts.empty() ? platform.host.ranks : *std::max_element(hosts.begin(), hosts.end())});
}

Priced price(const plan::Plan& plan, const plan::RunSpec& run, const platform::PlatformSpec& platform,
             const Software& software) {
  const auto rates = rates_of_run(run, plan.mesh, platform, software);
  return Pricer(plan, run, *rates, threads_of_rank(run, platform, plan.mesh.world())).run();
}

}  // namespace trireme::sim
