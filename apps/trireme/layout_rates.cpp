#include "trireme/layout_rates.h"

#include <fmt/format.h>

#include "sim/rates/sheet_rates.h"

namespace trireme::apps {

std::vector<Rate> rates_of(const search::Target& t) {
  const auto* of_sheet = dynamic_cast<const sim::SheetRates*>(t.rates.get());
  if (!of_sheet) {
    const sim::FixedRates& fixed = t.rates->fixed();
    const std::string curves = t.platform + "'s curves, " + t.rates->origin();
    return {{"the highest rate of matmuls, of a rank's share", t.peak_flops_per_s / 1e9, "GFLOP/s", curves},
            {"of one framework call", (fixed.operation_s + fixed.launch_s) * 1e6, "us", curves},
            {"of communication beside compute that costs nothing", fixed.overlap, "", curves}};
  }
  const sim::Machine& m = of_sheet->machine();
  const std::string sheet = t.platform + "'s data sheet";
  const auto fitted = [&](const char* key, const std::string& of, bool known) {
    return fmt::format("{} of {}, {}", key, of.empty() ? "a stack" : of,
                       known ? "profile " + t.profile : "its family in profile " + t.profile + ", else a default");
  };
  const auto device = [&](const char* key) { return fitted(key, t.device, t.device_known); };
  const auto stack = [&](const char* key) { return fitted(key, t.stack, t.stack_known); };
  const auto slowed = [&](const char* key) {
    return fmt::format("{} x {} / {}, at most {:.0f} % of it", sheet, device(key), stack("slow_down"),
                       100 * sim::most_of_peak);
  };
  std::vector<Rate> out = {
      {"large matmuls in 16 bits", m.flops_16 / 1e12, "TFLOP/s", slowed("gemm")},
      {"large matmuls in the compute format", m.flops_narrow / 1e12, "TFLOP/s",
       m.flops_narrow > m.flops_16 ? slowed("narrow_gemm") : slowed("gemm")},
      {"a matmul takes 1 + half this (1/m + 1/n + 1/k) times as long", m.half_rows, "rows", device("gemm_half_rows")},
      {"fused attention, heads of 128", m.attention_flops / 1e12, "TFLOP/s", slowed("attention")},
      {"memory", m.memory_bytes / 1e9, "GB/s", slowed("memory")},
      {"between one kernel and the next", m.operation_s * 1e6, "us", device("operation_us")},
      {"host time of one operation", m.launch_s * 1e6, "us", stack("launch_us")},
      {"of communication beside compute that costs nothing", m.overlap, "", stack("overlap")},
      {"host link", m.host_bytes / 1e9, "GB/s", sheet},
      {"the slowest of many devices takes longer by", m.noise, "", sheet}};
  for (int i = 0; i < m.num_levels; ++i) {
    const sim::MachineLevel& l = m.levels[static_cast<std::size_t>(i)];
    out.push_back({fmt::format("links of level {}, a device while all send", i), l.bytes_per_s / 1e9, "GB/s",
                   fmt::format("{} x {}", sheet, device(l.inside ? "node_link" : "network_link"))});
    out.push_back({fmt::format("latency of level {}", i), l.latency_s * 1e6, "us", sheet});
  }
  return out;
}

}  // namespace trireme::apps
