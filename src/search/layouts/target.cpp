#include "search/layouts/target.h"

#include <algorithm>

#include "model/compute_dtype.h"
#include "sim/core_sharing.h"
#include "sim/rates/make_rates.h"
#include "sim/rates/probed_rates.h"
#include "sim/rates/sheet_rates.h"

namespace trireme::search {

namespace {

// Of a host: how many ranks share it, and how they slow one another down while all compute.
struct HostShare {
  int ranks = 1, threads = 0;
  double slow_down = 1;
};

HostShare share_of_host(const platform::PlatformSpec& p, int devices) {
  if (p.device.kind != "cpu") return {};  // each rank has a device of its own
  HostShare out{.ranks = std::max(1, sim::ranks_of_machine(p.host, devices))};
  out.threads = std::max(1, p.host.cores / out.ranks);
  out.slow_down = sim::slow_down(sim::busy_table(p.host, out.threads), out.ranks, out.threads, p.host.cores);
  return out;
}

// CPUs gain nothing from a narrower format that nobody measured.
DType measured_dtype(sim::ComputeFormat compute, const platform::Device& device) {
  const DType wanted = model::dtype_of(compute);
  const auto is_wanted = [&](const platform::GemmCurve& c) { return c.dtype == wanted; };
  const bool measured = std::any_of(device.gemm.begin(), device.gemm.end(), is_wanted);
  return device.kind != "cpu" || measured || device.gemm.empty() ? wanted : device.gemm.front().dtype;
}

}  // namespace

Target make_target(const platform::PlatformSpec& platform, const platform::StackProfile& profile,
                   const std::string& stack, const model::Kernels& kernels, sim::ComputeFormat compute,
                   int devices) {
  Target t;
  t.platform = platform.name, t.device = platform.device.name, t.stack = stack, t.profile = profile.name;
  t.kernels = kernels;
  if (sim::has_curves(platform)) {
    const HostShare share = share_of_host(platform, devices);
    t.rates = t.ideal = std::make_shared<sim::ProbedRates>(platform, measured_dtype(compute, platform.device), share.threads,
                                                           platform.host.ranks, share.slow_down);
    t.device_known = t.stack_known = true;
    t.ranks_of_host = share.ranks, t.threads = share.threads;
    t.capacity_bytes = platform.device.memory_bytes / share.ranks;
    t.peak_flops_per_s = t.rates->fixed().peak_flops_per_s / share.ranks;
    return t;
  }
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
