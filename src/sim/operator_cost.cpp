#include "sim/operator_cost.h"

#include <algorithm>

#include <fmt/format.h>

namespace trireme::sim {

using model::FusedOperator;
using model::FusedKind;
using platform::MemoryUse;

namespace {

FlopsPerSecond rate_of(const FusedOperator& op, const platform::DeviceCurves& curves) {
  const auto at_least_one = [](std::int64_t x) { return static_cast<double>(std::max<std::int64_t>(x, 1)); };
  switch (op.kind) {
    case FusedKind::gemm: return curves.gemm(at_least_one(op.m), at_least_one(op.n), at_least_one(op.k));
    case FusedKind::grouped_gemm: {
      const double groups = at_least_one(op.groups);
      return curves.grouped_gemm(std::max(op.m / groups, 1.0), at_least_one(op.n), at_least_one(op.k), groups);
    }
    case FusedKind::attention:
      return curves.attention(at_least_one(op.sequence), at_least_one(op.heads * op.batch), at_least_one(op.head_dim),
                              op.backward);
    case FusedKind::memory: break;
  }
  return FlopsPerSecond(1);
}

// Several calls that share the bytes: each meets the curve at its own size.
double bytes_of_call(const FusedOperator& op) { return std::max(op.bytes.value / std::max(op.launches, 1), 1.0); }

}  // namespace

Seconds operator_time(const FusedOperator& op, const platform::DeviceCurves& curves) {
  const Seconds launches = curves.launch() * std::max(op.launches, 0);
  if (op.kind == FusedKind::memory) {
    if (op.bytes.value <= 0) return launches;
    return launches + op.bytes / curves.memory(MemoryUse::elementwise, bytes_of_call(op));
  }
  if (op.flops.value <= 0) return launches;
  return launches + op.flops / rate_of(op, curves);
}

Term explain_operator(const FusedOperator& op, const platform::DeviceCurves& curves) {
  const char* from = curves.measured() ? "measured" : "partly guessed";
  Term out{.what = op.what, .seconds = operator_time(op, curves).value};
  const double gflops = rate_of(op, curves).value / 1e9;
  switch (op.kind) {
    case FusedKind::gemm:
      out.source = fmt::format("gemm {} x {} x {} at {:.1f} GFLOP/s", op.m, op.n, op.k, gflops);
      break;
    case FusedKind::grouped_gemm:
      out.source = fmt::format("{} gemms of {:.0f} x {} x {} at {:.1f} GFLOP/s", op.groups,
                               static_cast<double>(op.m) / std::max<std::int64_t>(op.groups, 1), op.n, op.k, gflops);
      break;
    case FusedKind::attention:
      out.source = fmt::format("attention{} {} x {} heads, {} positions, {} wide, at {:.1f} GFLOP/s",
                               op.backward ? " backward" : "", op.batch, op.heads, op.sequence, op.head_dim, gflops);
      break;
    case FusedKind::memory:
      out.source = fmt::format("{:.0f} KiB in {} calls at {:.1f} GB/s", op.bytes.value / KiB, op.launches,
                               curves.memory(MemoryUse::elementwise, bytes_of_call(op)).value / GBps);
      break;
  }
  out.source += fmt::format(" + {} x {:.1f} us ({})", op.launches, curves.launch().value * 1e6, from);
  return out;
}

Seconds operators_time(const std::vector<FusedOperator>& ops, const platform::DeviceCurves& curves) {
  Seconds sum(0);
  for (const FusedOperator& op : ops) sum += operator_time(op, curves);
  return sum;
}

}  // namespace trireme::sim
