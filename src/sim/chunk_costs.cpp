#include "sim/chunk_costs.h"

#include "base/errors.h"

namespace trireme::sim {

using plan::Action;
using plan::ActionKind;

namespace {

class StagePrices {
 public:
  StagePrices(const StepModel& model, const StepPrices& prices, const Rates& rates, int stage)
      : model_(model), prices_(prices), rates_(rates), stage_(stage), update_(prices.updates[stage]),
        left_(exposed(model.setting(), rates, update_.whole, update_.forward_s, update_.backward_s)) {}

  double seconds(const Action& a) const {
    const double noisy = 1 + rates_.fixed().noise;
    switch (a.kind) {
      case ActionKind::forward:
        return noisy * piece(a.chunk).forward_s;
      case ActionKind::backward:
        return noisy * (piece(a.chunk).input_s + piece(a.chunk).weight_s);
      case ActionKind::input_gradient:
        return noisy * piece(a.chunk).input_s;
      case ActionKind::weight_gradient:
        return noisy * piece(a.chunk).weight_s;
      case ActionKind::pair:
        return noisy * joined_compute_s(model_.setting(), piece(a.chunk), piece(a.backward_chunk), rates_);
      case ActionKind::send:
      case ActionKind::receive:
        return noisy * prices_.send_s;
      case ActionKind::swap_out:
      case ActionKind::swap_in:
        if (a.chunk >= 0) return noisy * piece(a.chunk).copy_s;
        return a.kind == ActionKind::swap_out ? update_.whole.states_s : update_.whole.states_s / UpdateTime::slices;
      case ActionKind::reduce:
        return a.chunk < 0 ? left_.reduce_s
                           : share(update_.whole.reduce_s - left_.reduce_s,
                                   piece(a.chunk).input_s + piece(a.chunk).weight_s, update_.backward_s);
      case ActionKind::gather:
        return a.chunk < 0 ? left_.gather_s
                           : share(update_.whole.gather_s - left_.gather_s, piece(a.chunk).forward_s, update_.forward_s);
      case ActionKind::optimizer:
        return update_.whole.optimizer_s;
      default:
        break;
    }
    TRIREME_CHECK(false, "\"{}\" in a plan of chunks", plan::describe(a));
    return 0;
  }

 private:
  const PieceTime& piece(int chunk) const { return prices_.pieces[model_.piece(stage_, chunk)]; }
  // What of a message is hidden behind a stage's passes lies behind each chunk's in proportion, so behind none more than
  // there is of it.
  static double share(double hidden_s, double of_chunk_s, double of_stage_s) {
    return of_stage_s > 0 ? hidden_s * of_chunk_s / of_stage_s : 0;
  }

  const StepModel& model_;
  const StepPrices& prices_;
  const Rates& rates_;
  const int stage_;
  const StageUpdate& update_;
  const UpdateTime left_;  // that is not hidden
};

// What an action holds at its worst moment beside what is alive when it starts and what it allocates. `saved` and peaks of
// a piece count from before its micro-batch's input, boundaries and gradients between stages included.
double workspace(const Action& a, const StageHoldings& h) {
  const auto forward = [&](int chunk) { return h.chunks[chunk].forward_peak - h.chunks[chunk].saved; };
  const auto backward = [&](int chunk) { return h.chunks[chunk].backward_peak - h.chunks[chunk].saved; };
  switch (a.kind) {
    case ActionKind::forward:
      return forward(a.chunk);
    case ActionKind::backward:
      return backward(a.chunk);
    case ActionKind::pair:
      return forward(a.chunk) + backward(a.backward_chunk);
    case ActionKind::input_gradient:
      return h.chunks[a.chunk].input_peak - h.chunks[a.chunk].saved - h.chunks[a.chunk].weight_held;
    case ActionKind::weight_gradient:
      return h.chunks[a.chunk].weight_peak - h.chunks[a.chunk].weight_held;
    case ActionKind::optimizer:
      return h.states.step;
    default:
      return 0;
  }
}

double bytes_of(const plan::Buffer& b, const StageHoldings& h) {
  switch (b.kind) {
    case plan::BufferKind::saved:
      return h.chunks[b.chunk].saved;
    case plan::BufferKind::weight_work:
      return h.chunks[b.chunk].weight_held;
    case plan::BufferKind::host:
      return h.chunks[b.chunk].host;
    default:
      return 0;  // in saved and peaks
  }
}

}  // namespace

plan::Costs chunk_costs(const plan::Plan& plan, const StepModel& model, const Rates& rates,
                        const std::vector<StageHoldings>& holdings) {
  TRIREME_CHECK(plan.grain == plan::Grain::chunk, "a plan of segments");
  const StepPrices prices = model.prices(rates);
  plan::Costs out;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StageHoldings& held = holdings.at(s);
    const StagePrices of_stage(model, prices, rates, static_cast<int>(s));
    const bool first = s == 0, last = s + 1 == plan.stages.size();
    plan::StageCosts& costs = out.stages.emplace_back();
    costs.constant_bytes = held.states.total();
    bool backward_seen = false;
    for (const Action& a : plan.stages[s].actions) {
      costs.action_s.push_back(of_stage.seconds(a));
      double beside = workspace(a, held);
      const bool forward = a.kind == ActionKind::forward || a.kind == ActionKind::pair;
      if (a.lane == plan::Lane::compute && a.kind != ActionKind::optimizer) {
        // Gradients that stay: the one sent last, and in a forward the one received last.
        if (backward_seen && !first) beside += held.stream;
        if (backward_seen && !last && forward) beside += held.stream;
        backward_seen = backward_seen || a.kind != ActionKind::forward;
      }
      costs.action_workspace_bytes.push_back(beside);
    }
    for (const plan::Buffer& b : plan.stages[s].buffers) costs.buffer_bytes.push_back(bytes_of(b, held));
  }
  return out;
}

}  // namespace trireme::sim
