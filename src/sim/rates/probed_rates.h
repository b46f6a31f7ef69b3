// Rates of measured curves and links: of one dtype, for ranks of so many threads.
#pragma once
#include "platform/device_curves.h"
#include "platform/network_curves.h"
#include "sim/rates/rates.h"

namespace trireme::sim {

class ProbedRates final : public Rates {
 public:
  // `platform` is copied. ranks_per_host: where its own value does not hold; 0: all ranks on one host. `slow_down`: of all
  // compute, where nobody simulates how ranks share cores. ConfigError where the platform has no peak.
  ProbedRates(const platform::PlatformSpec& platform, DType dtype, int threads, int ranks_per_host,
              double slow_down = 1);
  ProbedRates(const ProbedRates&) = delete;
  ProbedRates& operator=(const ProbedRates&) = delete;

  // At the rate that the curve has for the shape; several calls that share an operator's bytes each at its own size.
  double operator_s(const Operator& op) const override;
  double memory_s(platform::MemoryUse use, double bytes) const override;
  // On links of the host where the group lies in one, else of the network. A gather or a scatter is half a reduction.
  double collective_s(CollectiveKind kind, const GroupPlace& group, double bytes) const override;
  // network/fabric.h: of links measured while all talk, else of each link alone.
  Fabric fabric(const plan::NodeShape& shape, double stride) const override;
  double segment_factor(const SegmentOfRank& of) const override;
  double load_cv(double tokens) const override { return curves_.load_cv(tokens); }

 private:
  platform::PlatformSpec platform_;
  platform::DeviceCurves curves_;
  platform::NetworkCurves network_;
  double slow_down_;
};

}  // namespace trireme::sim
