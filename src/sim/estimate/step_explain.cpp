#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "sim/estimate/step_model.h"

namespace trireme::sim {

namespace {

const char* limit_of(const Operator& w) {
  switch (w.kind) {
    case OperatorKind::matmul:
      return w.narrow ? "FLOPs over the narrow format's rate" : "FLOPs over the 16-bit rate";
    case OperatorKind::attention:
      return "FLOPs over attention's rate";
    case OperatorKind::memory:
      return "bytes over memory's bandwidth";
    case OperatorKind::collective:
      return w.beside ? "bytes over links, beside compute" : "bytes over links";
  }
  return "";
}

const char* formula_of(const Operator& w) {
  switch (w.kind) {
    case OperatorKind::matmul:
      return "price.md#matmul";
    case OperatorKind::attention:
      return "price.md#attention";
    case OperatorKind::memory:
      return "price.md#memory-pass";
    case OperatorKind::collective:
      return w.collective == CollectiveKind::exchange ? "price.md#exchange" : "price.md#collective";
  }
  return "";
}

// Works of one layer (or end), `count` of them a micro-batch: summed by name and pass.
class Terms {
 public:
  Terms(const Setting& s, const Rates& rates) : s_(s), strides_(plan::mesh_of(s.layout).strides()), rates_(rates) {}

  void add(const OperatorList& works, double count, plan::RecomputeSet recompute, bool moe) {
    static constexpr const char* passes[] = {"forward", "input gradient", "weight gradient"};
    for (const Operator& w : works) {
      if (w.pass == OperatorPass::weight_gradient && s_.execution.frozen_weights) continue;
      const double seconds = seconds_alone(w, s_, strides_, rates_) * count;
      put(fmt::format("{}, {}", w.what, passes[static_cast<int>(w.pass)]), seconds, limit_of(w), formula_of(w));
      if (w.pass == OperatorPass::forward && recomputes(recompute, w.part, moe))
        put(fmt::format("{}, computed again", w.what), seconds, limit_of(w), formula_of(w));
    }
  }
  void put(const std::string& what, double seconds, const std::string& source, const char* formula) {
    for (EstimateTerm& t : terms_)
      if (t.what == what) {
        t.seconds += seconds;
        return;
      }
    if (seconds != 0) terms_.push_back({what, seconds, source, formula});
  }
  std::vector<EstimateTerm> take() { return std::move(terms_); }

 private:
  const Setting& s_;
  const plan::AxisStrides strides_;
  const Rates& rates_;
  std::vector<EstimateTerm> terms_;
};

}  // namespace

std::vector<EstimateTerm> StepModel::explain(const Rates& rates) const {
  GridWorkspace workspace;
  const StepTime step = evaluate(rates, workspace);
  const std::vector<PieceTime> times = piece_times(rates);
  const double micro_batches = double(setting_.batch.num_micro_batches(setting_.layout.dp));
  Terms terms(setting_, rates);
  double listed = 0, gaps = 0, copies = 0;
  for (int c = 0; c < grid_->num_chunks; ++c) {
    const int p = piece(step.slowest_stage, c);
    const PieceShape& piece = shape_.pieces[p];
    copies += times[p].copies_not_hidden_s() * micro_batches;
    for (std::size_t k = 0; k < works_.size(); ++k) {
      const LayerKind& kind = shape_.kinds[k];
      const double extra = piece.head && static_cast<int>(k) == shape_.mtp_kind ? setting_.model.mtp_depth : 0;
      if (const double count = piece.layers[k] + extra; count > 0)
        terms.add(works_[k], count * micro_batches, kind.recomputed ? setting_.layout.recompute : plan::RecomputeSet{},
                  kind.moe);
    }
    if (piece.embed) terms.add(embed_, micro_batches, {}, false);
    if (piece.head) terms.add(head_, micro_batches * (1 + setting_.model.mtp_depth), {}, false);
    if (piece.head && setting_.model.mtp_depth > 0)
      terms.add(mtp_, micro_batches * setting_.model.mtp_depth, {}, false);
    for (const PassTime* t : {&times[p].forward, &times[p].input, &times[p].weight}) gaps += t->gaps * micro_batches;
  }
  terms.put("between kernels", gaps, "kernels times the device's operation time, and waits for routed counts",
            "price.md#launch");
  terms.put("copies to and from host memory not hidden", copies, "swapped bytes over the host's link, beside compute",
            "price.md#host-copy");
  std::vector<EstimateTerm> out = terms.take();
  for (const EstimateTerm& t : out) listed += t.seconds;
  std::stable_sort(out.begin(), out.end(),
                   [](const EstimateTerm& a, const EstimateTerm& b) { return a.seconds > b.seconds; });
  const double busy = workspace.result.busy_s[step.slowest_stage];
  out.push_back({"hidden behind compute (negative), sharded parameters' messages, waiting for the host", busy - listed,
                 "overlap of the stack; launches times its launch time", "price.md#overlap"});
  out.push_back({"idle in the pipeline", step.pipeline_s - busy, "the schedule's slots, executed", "price.md#slots"});
  out.push_back({"gradient reduction not hidden", step.reduce_s, "ring over the data ranks", "price.md#collective"});
  out.push_back({"parameter gathering not hidden", step.gather_s, "ring over the data ranks", "price.md#collective"});
  out.push_back({"optimizer", step.optimizer_s, "bytes of its state over memory's bandwidth",
                 "price.md#optimizer"});
  return out;
}

}  // namespace trireme::sim
