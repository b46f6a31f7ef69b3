// The rates of a platform: of its curves where it was probed, else of its data sheet.
#pragma once
#include <memory>
#include <string>

#include "platform/platform_spec.h"
#include "platform/stack_profile.h"
#include "sim/rates/rates.h"

namespace trireme::sim {

// What a data sheet's machine is run with.
struct Software {
  std::string name;  // of the release; empty: none that anybody measured
  platform::DeviceEfficiency device;
  platform::StackBehaviour stack;
};

// Whether a platform was probed; curves come before a data sheet.
bool has_curves(const platform::PlatformSpec& platform);

struct RatesOptions {
  DType dtype = DType::float32;  // of a run's tensors
  int threads = 0;               // of a rank, on a CPU
  int ranks_per_host = 0;        // of a probed platform; 0: all on one
};

// `software`: what it gets out of a data sheet; curves have it in them. ConfigError where the platform has neither.
std::unique_ptr<Rates> make_rates(const platform::PlatformSpec& platform, const Software& software,
                                  const RatesOptions& options);

}  // namespace trireme::sim
