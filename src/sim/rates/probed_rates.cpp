#include "sim/rates/probed_rates.h"

#include <algorithm>
#include <limits>

#include "base/errors.h"

namespace trireme::sim {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
}  // namespace

ProbedRates::ProbedRates(const platform::PlatformSpec& platform, DType dtype, int threads, int ranks_per_host,
                         double slow_down)
    : Rates(Kind::probed), platform_(platform), curves_(platform_.device, dtype, threads), network_(platform_), slow_down_(slow_down) {
  const platform::Device& device = platform_.device;
  // A framework call takes a CPU's own time; the host of an accelerator launches ahead of it.
  (device.kind == "cpu" ? fixed_.operation_s : fixed_.launch_s) = device.launch_s * slow_down;
  fixed_.overlap = std::clamp(1 - platform_.framework.communication_core_share, 0.0, 1.0);
  fixed_.peak_flops_per_s = curves_.peak().value;
  for (const platform::MemoryCurve& c : device.memory)
    if (c.use == platform::MemoryUse::copy && !c.bytes_per_s.empty()) fixed_.host_bytes_per_s = c.bytes_per_s.back();
  units_.push_back({.devices = ranks_per_host > 0 ? ranks_per_host : infinity, .inside = true});
  if (ranks_per_host > 0 && platform_.host.nodes_per_group > 0)
    units_.push_back({.devices = double(ranks_per_host) * platform_.host.nodes_per_group});
  if (ranks_per_host > 0) units_.push_back({.devices = infinity});
  origin_ = curves_.measured() ? "measured" : "partly guessed";
  measured_ = curves_.measured();
  notes_ = curves_.notes();
  has_node_all_to_all_ = true;  // a table, or the link at the messages' own size
}

double ProbedRates::operator_s(const Operator& op) const {
  const auto at_least_one = [](double x) { return std::max(x, 1.0); };
  if (op.kind == OperatorKind::memory) {
    if (op.bytes <= 0) return 0;
    const double a_call = at_least_one(op.bytes / at_least_one(op.launches));
    return slow_down_ * op.bytes / curves_.memory(platform::MemoryUse::elementwise, a_call).value;
  }
  if (op.flops <= 0) return 0;
  const double m = at_least_one(op.m), n = at_least_one(op.n), k = at_least_one(op.k);
  if (op.kind == OperatorKind::attention)
    return slow_down_ * op.flops / curves_
                          .attention(at_least_one(op.sequence), at_least_one(op.heads), at_least_one(op.head_dim),
                                     op.pass != OperatorPass::forward)
                          .value;
  return slow_down_ * op.flops / (op.groups > 1 ? curves_.grouped_gemm(m, n, k, op.groups) : curves_.gemm(m, n, k)).value;
}

double ProbedRates::memory_s(platform::MemoryUse use, double bytes) const {
  return slow_down_ * bytes / curves_.memory(use, std::max(bytes, 1.0)).value;
}

double ProbedRates::collective_s(CollectiveKind kind, const GroupPlace& group, double bytes) const {
  const auto level = leaves_node(group) ? platform::Level::network : platform::Level::host;
  const int size = static_cast<int>(group.size);
  switch (kind) {
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
      return network_.all_reduce(level, size, bytes).value / 2;
    case CollectiveKind::all_reduce:
      return network_.all_reduce(level, size, bytes).value;
    case CollectiveKind::all_to_all:
      return network_.all_to_all(level, size, bytes * (group.size - 1) / group.size).value;
    case CollectiveKind::send:
      return network_.message(level, bytes).value;
    case CollectiveKind::exchange:
      break;
  }
  TRIREME_CHECK(false, "an exchange without its pattern");
  return 0;
}

Fabric ProbedRates::fabric(const plan::NodeShape& shape, double) const { return fabric_of(platform_, shape); }

double ProbedRates::segment_factor(const SegmentOfRank& of) const {
  return curves_.segment_factor(of.segment, of.layer, of.pass, of.tokens, of.experts);
}

}  // namespace trireme::sim
