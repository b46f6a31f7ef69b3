#include "search/layouts/target.h"

#include "sim/rates/sheet_rates.h"

namespace trireme::search {

Target make_target(const platform::PlatformSpec& platform, const platform::StackProfile& profile,
                   const std::string& stack, const model::Kernels& kernels, sim::ComputeFormat compute) {
  Target t;
  t.platform = platform.name, t.device = platform.device.name, t.stack = stack, t.profile = profile.name;
  t.kernels = kernels;
  const platform::DeviceEfficiency device = profile.device(t.device, &t.device_known);
  const platform::StackBehaviour behaviour = profile.stack(stack, &t.stack_known);
  t.rates = std::make_shared<sim::SheetRates>(platform, device, behaviour, compute);
  t.ideal = std::make_shared<sim::SheetRates>(sim::ideal_machine(platform.datasheet, compute));
  t.capacity_bytes = platform.device.memory_bytes;
  t.host_capacity_bytes = platform.datasheet.host_memory_bytes;
  t.peak_flops_per_s = platform.datasheet.peak(model::name_of(compute));
  return t;
}

}  // namespace trireme::search
