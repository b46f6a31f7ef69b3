#include "sim/operator_cost.h"

#include <fmt/format.h>

#include "sim/estimate/layer_time.h"

namespace trireme::sim {

namespace {

double gaps_s(const Operator& op, const Rates& rates) {
  return rates.fixed().operation_s * op.launches;
}

const char* pass_of(const Operator& op) {
  if (op.pass == OperatorPass::forward) return "";
  if (op.kind != OperatorKind::matmul) return ", gradient";
  return op.pass == OperatorPass::input_gradient ? ", input gradient" : ", weight gradient";
}

}  // namespace

std::vector<Operator> operators_of(const model::ModelSpec& model, const plan::Action& a,
                                   const model::SegmentShape& shape) {
  const auto half = [&](OperatorPass pass) {
    // What an embedding does backwards is all for its weight.
    if (a.segment == model::Segment::embed && pass == OperatorPass::weight_gradient)
      return model::operators(model, a.segment, a.layer, model::Pass::backward, shape);
    if (a.segment == model::Segment::embed) return std::vector<Operator>();
    return model::operators(model, a.segment, a.layer, pass, shape);
  };
  if (a.kind == plan::ActionKind::input_gradient) return half(OperatorPass::input_gradient);
  if (a.kind == plan::ActionKind::weight_gradient) return half(OperatorPass::weight_gradient);
  return model::operators(model, a.segment, a.layer, a.pass, shape);
}

Seconds operator_time(const Operator& op, const Rates& rates) {
  return Seconds(rates.operator_s(op) + gaps_s(op, rates));
}

Term explain_operator(const Operator& op, const Rates& rates) {
  const double work_s = rates.operator_s(op), gaps = gaps_s(op, rates);
  const auto a_second = [&](double amount) { return work_s > 0 ? amount / work_s / 1e9 : 0; };
  Term out{.what = fmt::format("{}{}", op.what, pass_of(op)), .seconds = work_s + gaps};
  const double gflops = a_second(op.flops);
  switch (op.kind) {
    case OperatorKind::matmul:
      out.formula = "price.md#matmul";
      out.source = op.groups > 1 ? fmt::format("{} gemms of {:.0f} x {} x {} at {:.1f} GFLOP/s", op.groups, op.m, op.n,
                                               op.k, gflops)
                                 : fmt::format("gemm {} x {} x {} at {:.1f} GFLOP/s", op.m, op.n, op.k, gflops);
      break;
    case OperatorKind::attention:
      out.formula = "price.md#attention";
      out.source =
          fmt::format("attention{} of {} heads, {} positions, {} wide, at {:.1f} GFLOP/s",
                      op.pass == OperatorPass::forward ? "" : " backward", op.heads, op.sequence, op.head_dim, gflops);
      break;
    case OperatorKind::memory:
    case OperatorKind::collective:  // a run's messages are priced by their actions
      out.formula = "price.md#memory-pass";
      out.source =
          fmt::format("{:.0f} KiB in {} calls at {:.1f} GB/s", op.bytes / KiB, op.launches, a_second(op.bytes));
      break;
  }
  out.source +=
      fmt::format(" + {} x {:.1f} us ({})", op.launches, rates.fixed().operation_s * 1e6, rates.origin());
  return out;
}

Seconds operators_time(const std::vector<Operator>& ops, const Rates& rates) {
  PassTime all;
  for (const Operator& op : ops) {
    all.matmul += operator_time(op, rates).value;
    all.launches += op.launches;
  }
  return Seconds(wall_s(all, rates));
}

}  // namespace trireme::sim
