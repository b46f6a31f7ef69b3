#include "sim/estimate/machine.h"

#include <algorithm>
#include <limits>

#include "base/errors.h"

namespace trireme::sim {

namespace {

void add_levels(const platform::Datasheet& sheet, double node_link, double network_link, Machine& m) {
  m.num_levels = std::min<int>(max_levels, sheet.levels.size());
  for (int i = 0; i < m.num_levels; ++i) {
    const platform::FabricLevel& l = sheet.levels[i];
    // Links inside a node (the level that several cards do not share) follow the first efficiency, all others the
    // second.
    const bool inside = i == 0 || l.name == "node" || l.name == "nvlink_domain";
    m.levels[i] = {.devices = l.devices > 0 ? l.devices : std::numeric_limits<double>::infinity(),
                   .latency_s = l.latency_s,
                   .bytes_per_s = l.device_bytes_per_s() * (inside ? node_link : network_link),
                   .mesh = l.shape == "mesh",
                   .inside = inside};
  }
}

}  // namespace

Machine make_machine(const platform::PlatformSpec& platform, const platform::DeviceEfficiency& device,
                     const platform::StackBehaviour& stack, ComputeFormat compute) {
  const platform::Datasheet& sheet = platform.datasheet;
  if (sheet.empty())
    throw ConfigError(
        {.file = platform.name, .key = "datasheet", .allowed = "a [datasheet] table (peaks, memory, levels)"});
  const bool narrow = model::is_narrow(compute);
  const double peak_16 = sheet.peak(narrow ? "bfloat16" : name_of(compute));
  Machine m;
  // However fast a release is, no kernel comes closer to the data sheet.
  const auto share = [&](double efficiency) { return std::min(most_of_peak, efficiency / stack.slow_down); };
  m.flops_16 = peak_16 * share(device.gemm);
  // A device without the narrow format computes in 16 bits.
  const double peak_narrow = sheet.peak(name_of(compute));
  m.flops_narrow = narrow && peak_narrow > peak_16 ? peak_narrow * share(device.narrow_gemm) : m.flops_16;
  m.peak = sheet.peak(name_of(compute));
  m.half_rows = device.gemm_half_rows;
  m.attention_flops = peak_16 * share(device.attention);
  m.memory_bytes = sheet.memory_bytes_per_s * share(device.memory);
  m.operation_s = device.operation_s;
  m.launch_s = stack.launch_s;
  m.overlap = stack.overlap;
  m.host_bytes = sheet.host_link_bytes_per_s;
  m.noise = sheet.noise;
  add_levels(sheet, device.node_link, device.network_link, m);
  return m;
}

Machine ideal_machine(const platform::Datasheet& sheet, ComputeFormat compute) {
  Machine m;
  m.peak = m.flops_16 = m.flops_narrow = m.attention_flops = sheet.peak(name_of(compute));
  m.memory_bytes = sheet.memory_bytes_per_s;
  m.overlap = 1;
  m.host_bytes = sheet.host_link_bytes_per_s;
  add_levels(sheet, 1, 1, m);
  for (MachineLevel& l : m.levels) l.latency_s = 0;
  return m;
}

}  // namespace trireme::sim
