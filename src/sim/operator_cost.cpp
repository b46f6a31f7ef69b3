#include "sim/operator_cost.h"

#include <algorithm>

#include <fmt/format.h>

#include "sim/estimate/layer_time.h"

namespace trireme::sim {

using model::FusedKind;
using model::FusedOperator;

namespace {

Operator operator_of(const FusedOperator& op) {
  Operator w{.what = op.what,
         .pass = op.backward ? OperatorPass::input_gradient : OperatorPass::forward,
         .n = static_cast<double>(op.n),
         .k = static_cast<double>(op.k),
         .flops = op.flops.value,
         .sequence = static_cast<double>(op.sequence),
         .heads = static_cast<double>(op.heads * op.batch),
         .head_dim = static_cast<double>(op.head_dim),
         .bytes = op.bytes.value,
         .launches = static_cast<double>(std::max(op.launches, 0))};
  switch (op.kind) {
    case FusedKind::gemm:
    case FusedKind::grouped_gemm:
      w.kind = OperatorKind::matmul;
      w.groups = static_cast<double>(std::max<std::int64_t>(op.groups, 1));
      w.m = static_cast<double>(op.m) / w.groups;
      break;
    case FusedKind::attention:
      w.kind = OperatorKind::attention;
      break;
    case FusedKind::memory:
      w.kind = OperatorKind::memory;
      break;
  }
  return w;
}

double gaps_s(const FusedOperator& op, const Rates& rates) {
  return rates.fixed().operation_s * std::max(op.launches, 0);
}

}  // namespace

Seconds operator_time(const FusedOperator& op, const Rates& rates) {
  return Seconds(rates.operator_s(operator_of(op)) + gaps_s(op, rates));
}

Term explain_operator(const FusedOperator& op, const Rates& rates) {
  const double work_s = rates.operator_s(operator_of(op)), gaps = gaps_s(op, rates);
  const auto a_second = [&](double amount) { return work_s > 0 ? amount / work_s / 1e9 : 0; };
  Term out{.what = op.what, .seconds = work_s + gaps};
  const char* formula = "";
  const double gflops = a_second(op.flops.value);
  switch (op.kind) {
    case FusedKind::gemm:
      out.formula = "price.md#matmul";
      out.source = fmt::format("gemm {} x {} x {} at {:.1f} GFLOP/s", op.m, op.n, op.k, gflops);
      formula = "matmul";
      break;
    case FusedKind::grouped_gemm:
      out.formula = "price.md#matmul";
      out.source = fmt::format("{} gemms of {:.0f} x {} x {} at {:.1f} GFLOP/s", op.groups,
                               static_cast<double>(op.m) / std::max<std::int64_t>(op.groups, 1), op.n, op.k, gflops);
      formula = "matmul";
      break;
    case FusedKind::attention:
      out.formula = "price.md#attention";
      out.source = fmt::format("attention{} {} x {} heads, {} positions, {} wide, at {:.1f} GFLOP/s",
                               op.backward ? " backward" : "", op.batch, op.heads, op.sequence, op.head_dim, gflops);
      formula = "attention";
      break;
    case FusedKind::memory:
      out.formula = "price.md#memory-pass";
      out.source = fmt::format("{:.0f} KiB in {} calls at {:.1f} GB/s", op.bytes.value / KiB, op.launches,
                               a_second(op.bytes.value));
      formula = "memory-pass";
      break;
  }
  out.source += fmt::format(" + {} x {:.1f} us ({}); price.md#{}", op.launches, rates.fixed().operation_s * 1e6,
                            rates.origin(), formula);
  return out;
}

Seconds operators_time(const std::vector<FusedOperator>& ops, const Rates& rates) {
  PassTime all;
  for (const FusedOperator& op : ops) {
    all.matmul += operator_time(op, rates).value;
    all.launches += std::max(op.launches, 0);
  }
  return Seconds(wall_s(all, rates));
}

}  // namespace trireme::sim
