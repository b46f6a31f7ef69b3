#include "platform/probed_device.h"

#include <algorithm>

namespace trireme::platform {

namespace {

double highest(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

int ranks_of_host(const PlatformSpec& p) {
  if (p.device.kind != "cpu") return 1;  // each rank has a device of its own
  return std::max(1, p.host.ranks > 0 ? p.host.ranks : p.host.cores);
}

}  // namespace

PlatformSpec with_datasheet(PlatformSpec p) {
  if (!p.datasheet.empty()) return p;
  const int ranks = ranks_of_host(p);
  Datasheet& d = p.datasheet;
  for (const Peak& peak : p.device.peaks)
    d.peaks.push_back({.format = std::string(name_of(peak.dtype)), .flops_per_s = peak.flops_per_s / ranks});
  if (const double float32 = d.peak("float32"); float32 > 0 && d.peak("bfloat16") == 0)
    d.peaks.push_back({.format = "bfloat16", .flops_per_s = float32});
  // The largest sizes: smaller ones lie in caches.
  for (const MemoryCurve& m : p.device.memory)
    if (!m.bytes_per_s.empty()) d.memory_bytes_per_s = std::max(d.memory_bytes_per_s, m.bytes_per_s.back());
  d.host_link_bytes_per_s = d.memory_bytes_per_s;
  p.device.memory_bytes /= ranks;
  for (const char* name : {"host", "network"})
    for (const Link& link : p.links)
      if (link.level == name)
        d.levels.push_back({.name = std::string(name) == "host" ? "node" : "network",
                            .devices = std::string(name) == "host" ? std::max(ranks, p.host.ranks) : 0,
                            .latency_s = link.latency_s,
                            .bytes_per_s = highest(link.bytes_per_s)});
  // One host alone: all devices that are asked for are taken to be on it.
  if (!d.levels.empty() && d.levels.back().devices > 0) d.levels.back().devices = 0;
  return p;
}

DeviceEfficiency efficiency_of_curves(const PlatformSpec& p) {
  DeviceEfficiency e;
  double peak = 0, gemm = 0, attention = 0;
  for (const Peak& of : p.device.peaks) peak = std::max(peak, of.flops_per_s);
  for (const GemmCurve& of : p.device.gemm) gemm = std::max(gemm, highest(of.flops_per_s));
  for (const AttentionCurve& of : p.device.attention) attention = std::max(attention, highest(of.forward_flops_per_s));
  if (peak > 0 && gemm > 0) e.gemm = e.narrow_gemm = std::min(1.0, gemm / peak);
  if (peak > 0 && attention > 0) e.attention = std::min(1.0, attention * ranks_of_host(p) / peak);
  e.memory = e.node_link = e.network_link = 1;
  if (p.device.launch_s > 0) e.operation_s = p.device.launch_s;
  return e;
}

}  // namespace trireme::platform
