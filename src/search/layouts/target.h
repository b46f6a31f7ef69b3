// A target is what a layout is judged against: a machine under a calibration, what the software keeps in memory, and
// how much there is. It says nothing of the model or the layout, which are the question's.
#pragma once
#include <memory>
#include <string>

#include "model/kernels.h"
#include "platform/platform_spec.h"
#include "platform/stack_profile.h"
#include "sim/rates/rates.h"

namespace trireme::search {

struct Target {
  std::string platform, device, stack, profile;    // names; of the stack profile "uncalibrated" where there is none
  bool device_known = false, stack_known = false;  // whether the profile describes them; else its defaults stand
  std::shared_ptr<const sim::Rates> rates;
  std::shared_ptr<const sim::Rates> ideal;  // what no software can beat: a data sheet as it is
  model::Kernels kernels;
  int ranks_of_host = 0, threads = 0;  // of a probed CPU: a device is a rank's share of the host
  double capacity_bytes = 0;       // of a device
  double host_capacity_bytes = 0;  // for what a rank swaps; 0: nothing can be swapped
  double peak_flops_per_s = 0;     // of a device in the compute format, as the data sheet has it
};

// By the platform's curves where it was probed; else its data sheet with `stack`, an entry of the profile (one that it has
// not got takes its defaults). `devices`: how many there are, of which a host's ranks share it.
Target make_target(const platform::PlatformSpec& platform, const platform::StackProfile& profile,
                   const std::string& stack, const model::Kernels& kernels, sim::ComputeFormat compute,
                   int devices = 1);

}  // namespace trireme::search
