// A platform's data sheet under a calibration: what the estimate multiplies sizes with. Plain numbers, so that pricing
// looks nothing up.
#pragma once
#include <array>

#include "platform/platform_spec.h"
#include "platform/stack_profile.h"
#include "sim/estimate/setting.h"

namespace trireme::sim {

inline constexpr int max_levels = 6;

struct MachineLevel {
  double devices = 0;  // in a unit; infinity for the last
  double latency_s = 0;
  double bytes_per_s = 0;  // of a device while all send, efficiency included
  bool mesh = false;       // bandwidth is the sum of links to each peer
  bool inside = false;     // of a node: no network card in between
};

struct Machine {
  double flops_16 = 0;      // of large matmuls in 16 bits, a second
  double flops_narrow = 0;  // in the setting's compute format, where that is narrower
  double half_rows = 0;
  double attention_flops = 0;
  double memory_bytes = 0;  // a second
  double operation_s = 0;
  double launch_s = 0;
  double overlap = 0;
  double peak = 0;          // of the data sheet, in the compute format
  double host_bytes = 0;  // a second, between device and host memory
  double noise = 0;
  int num_levels = 0;
  std::array<MachineLevel, max_levels> levels;
};

// Of a peak or a bandwidth: what the best kernels reach on long runs of large operands (A100's matmuls: 0.9).
inline constexpr double most_of_peak = 0.9;

// ConfigError where the platform has no data sheet.
Machine make_machine(const platform::PlatformSpec& platform, const platform::DeviceEfficiency& device,
                     const platform::StackBehaviour& stack, ComputeFormat compute);

// A data sheet as it is, and no time for anything else: what no software can beat.
Machine ideal_machine(const platform::Datasheet& sheet, ComputeFormat compute);

}  // namespace trireme::sim
