// How much of a machine's data sheet software gets out of it: a calibration. At most eight named physical parameters
// describe a device, at most three a software stack; none is of a model or of a row. `trireme calibrate` writes files
// of it; without one the defaults below stand, which are guesses.
#pragma once
#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::platform {

// Of a device, whatever runs on it.
struct DeviceEfficiency {
  double gemm = 0.75;           // of the peak: large matmuls in 16 bits
  double narrow_gemm = 0.70;    // the same in narrower formats
  double gemm_half_rows = 250;  // rows of a matmul at which half of that is reached: eff = m / (m + half)
  double attention = 0.55;      // of the 16-bit peak: fused attention
  double memory = 0.75;         // of the memory's bandwidth
  double node_link = 0.75;      // of the innermost links' bandwidth
  double network_link = 0.75;   // of the bandwidth of the links outside
  double operation_s = 3e-6;    // of device time between one kernel and the next
  bool operator==(const DeviceEfficiency&) const = default;
};

// Of a release of a training framework.
struct StackBehaviour {
  double slow_down = 1;    // device time of compute over that of `DeviceEfficiency`
  double overlap = 0.7;    // of communication that the layout runs beside compute: the part that costs nothing
  double launch_s = 50e-6;  // of host time for one operation, where no graph was captured
  bool operator==(const StackBehaviour&) const = default;
};

inline constexpr std::size_t num_device_parameters = 8, num_stack_parameters = 3;
std::array<double*, num_device_parameters> parameters(DeviceEfficiency& e);
std::array<double*, num_stack_parameters> parameters(StackBehaviour& b);
extern const std::array<std::string_view, num_device_parameters> device_parameter_names;  // with their units
extern const std::array<std::string_view, num_stack_parameters> stack_parameter_names;

// What lends its values to a device or a release that nobody has measured: "H200-SXM5-141GB" -> "hopper",
// "megatron_bridge_26.04" -> "megatron_bridge". The name itself where it belongs to none.
std::string family_of_device(std::string_view name);
std::string family_of_stack(std::string_view name);

struct DeviceEntry {
  std::string device;  // Device::name of a platform, or a family's
  DeviceEfficiency values;
  bool operator==(const DeviceEntry&) const = default;
};

struct StackEntry {
  std::string name;  // "megatron_bridge_26.04"
  StackBehaviour values;
  int rows = 0;               // that it was fitted to
  double median_error = 0;    // of these rows, |predicted / measured - 1|
  double held_out_error = 0;  // the same, each row's model left out of the fit
  bool operator==(const StackEntry&) const = default;
};

struct StackProfile {
  std::string name = "uncalibrated";
  std::vector<DeviceEntry> devices;
  std::vector<StackEntry> stacks;

  // Of this name; else of its family, else the defaults (`known` is true only of its own entry).
  DeviceEfficiency device(std::string_view device, bool* known = nullptr) const;
  StackBehaviour stack(std::string_view name, bool* known = nullptr) const;
  bool operator==(const StackProfile&) const = default;
};

// TOML: [[device]] and [[stack]] tables with the keys above, strict. ConfigError for an efficiency outside (0, 1], and
// so on.
StackProfile load_stack_profile(const std::filesystem::path& path);
StackProfile parse_stack_profile(const std::string& toml, const std::string& file_name);
std::string to_toml(const StackProfile& profile);
void save_stack_profile(const StackProfile& profile, const std::filesystem::path& path);

}  // namespace trireme::platform
