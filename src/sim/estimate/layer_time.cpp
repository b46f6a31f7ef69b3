#include "sim/estimate/layer_time.h"

#include <algorithm>
#include <cmath>

#include "sim/rates/implementation.h"

namespace trireme::sim {

PassTime& PassTime::operator+=(const PassTime& o) {
  matmul += o.matmul, attention += o.attention, memory += o.memory, gaps += o.gaps;
  collectives += o.collectives, beside += o.beside, launches += o.launches;
  exchanges += o.exchanges, outside += o.outside, inside += o.inside, apart += o.apart;
  return *this;
}

PassTime PassTime::operator*(double by) const {
  return {matmul * by,   attention * by, memory * by,  gaps * by,   collectives * by, beside * by,
          launches * by, exchanges * by, outside * by, inside * by, apart * by};
}

RouterShape router_of(const model::ModelSpec& spec) {
  const model::RouterSpec& r = spec.moe.router;
  RouterShape out{.top_k = static_cast<int>(r.top_k), .experts = static_cast<int>(spec.moe.num_experts)};
  if (r.num_groups > 1) out.groups = static_cast<int>(r.num_groups), out.chosen_groups = static_cast<int>(r.top_groups);
  return out;
}

namespace {

// A layer's exchanges are one group's by one pattern: its table is looked up once.
class Exchanges {
 public:
  Exchanges(const Setting& setting, const plan::AxisStrides& strides, const Rates& rates)
      : s_(setting), strides_(strides), rates_(rates) {}
  ExchangeTime time_of(const Operator& w) {
    if (!table_) table_ = &rates_.exchange_table(s_.layout.all_to_all, strides_.place(w.axis), router_of(s_.model));
    return table_->at(w.message / s_.execution.exchange_links);
  }

 private:
  const Setting& s_;
  const plan::AxisStrides& strides_;
  const Rates& rates_;
  const ExchangeTable* table_ = nullptr;
};

template <class Implementation>
double seconds_of(const Operator& w, const plan::AxisStrides& strides, const Implementation& rates,
                  Exchanges& exchanges) {
  if (w.kind != OperatorKind::collective) return rates.operator_s(w);
  if (w.collective == CollectiveKind::exchange) return exchanges.time_of(w).alone_s;
  return rates.collective_s(w.collective, strides.place(w.axis), w.message);
}

}  // namespace

double seconds_alone(const Operator& w, const Setting& s, const plan::AxisStrides& strides, const Rates& rates) {
  Exchanges exchanges(s, strides, rates);
  return seconds_of(w, strides, rates, exchanges);
}

namespace {

// What every second of a gated layer's matmuls (keys, output, up of queries, keys, values, output, gate, up, down) has
// of their FLOPs: 0.36 to 0.39 of Llama's layers.
constexpr double alternate_share = 0.37;

bool captured(Graphs graphs, Part part) {
  if (graphs == Graphs::whole) return true;
  if (graphs == Graphs::none) return false;
  return part == Part::norm || part == Part::projection || part == Part::mla_up || part == Part::core ||
         part == Part::router;
}

template <class Implementation>
LayerTime time_of(const OperatorList& works, const Setting& s, const Implementation& rates, plan::RecomputeSet recompute,
                  bool moe) {
  LayerTime out;
  const plan::AxisStrides strides = plan::mesh_of(s.layout).strides();
  Exchanges exchanges(s, strides, rates);
  for (const Operator& w : works) {
    PassTime t;
    double seconds = 0;
    if (w.kind == OperatorKind::collective && w.collective == CollectiveKind::exchange && w.beside) {
      const ExchangeTime e = exchanges.time_of(w);
      t.exchanges = e.alone_s, t.outside = e.outside_s, t.inside = e.inside_s;
    } else {
      seconds = seconds_of(w, strides, rates, exchanges);
    }
    switch (w.kind) {
      case OperatorKind::matmul:
        t.matmul = seconds;
        break;
      case OperatorKind::attention:
        t.attention = seconds;
        break;
      case OperatorKind::memory:
        t.memory = seconds;
        break;
      case OperatorKind::collective:
        (w.beside ? t.beside : t.collectives) = seconds;  // of exchanges beside another micro-batch nothing
        break;
    }
    if (w.kind != OperatorKind::collective) t.gaps = w.kernels * rates.fixed().operation_s;
    if (w.apart) t.apart = t.compute();
    // Where the host reads routed counts it has launched nothing ahead: the device waits for the launches of a few
    // kernels.
    if (s.execution.reads_counts && moe && w.part == Part::exchange && w.pass == OperatorPass::forward)
      t.gaps += 8 * rates.fixed().launch_s;
    if (!captured(s.execution.graphs, w.part)) t.launches = w.launches;
    out.pass[static_cast<int>(w.pass)] += t;
    if (w.pass != OperatorPass::forward) continue;
    if (recomputes(recompute, w.part, moe))
      out.recompute += t;
    else if (s.execution.alternate_matmuls && w.kind == OperatorKind::matmul &&
             (w.part == Part::projection || w.part == Part::mla_up || w.part == Part::mlp))
      out.recompute += t * alternate_share;
  }
  return out;
}

}  // namespace

LayerTime layer_time(const OperatorList& works, const Setting& s, const Rates& rates, plan::RecomputeSet recompute,
                     bool moe) {
  return with_implementation(rates, [&](const auto& known) { return time_of(works, s, known, recompute, moe); });
}

namespace {

// `messages` of which `hideable` may run beside compute.
double wall_s(const PassTime& p, double messages, double hideable, const Rates& rates) {
  const double compute = p.compute();
  const double device = compute + p.collectives + messages - rates.fixed().overlap * std::min(hideable, compute);
  // Neither runs ahead of the other all the time: a smooth maximum of the two.
  const double host = p.launches * rates.fixed().launch_s;
  if (host <= 0 || device <= 0) return std::max(host, device);
  const double ratio = std::min(host, device) / std::max(host, device), squared = ratio * ratio;
  return std::max(host, device) * std::sqrt(std::sqrt(1 + squared * squared));
}

}  // namespace

double wall_s(const PassTime& p, const Rates& rates) {
  const double messages = p.beside + p.exchanges;
  return wall_s(p, messages, messages, rates);
}

double alone_s(const PassTime& p, const Rates& rates) {
  return wall_s(p, p.beside + p.exchanges, p.beside + std::min(p.exchanges, p.apart), rates);
}

double pair_s(const PassTime& forward, const PassTime& backward, const Rates& rates) {
  PassTime sum = forward;
  sum += backward;
  const double exchanges = std::max({sum.outside, sum.inside, forward.exchanges, backward.exchanges});
  const double beside_the_other = std::min(forward.exchanges, backward.compute()) +
                                  std::min(backward.exchanges, forward.compute() + backward.apart);
  return wall_s(sum, sum.beside + exchanges, sum.beside + std::min(exchanges, beside_the_other), rates);
}

double joined_lower_bound_s(const PassTime& sum, const Rates& rates) {
  const double messages = sum.beside + std::max(sum.outside, sum.inside);
  return wall_s(sum, messages, messages, rates);
}

}  // namespace trireme::sim
