// Rates of a data sheet under a stack's profile.
#pragma once
#include <algorithm>
#include <cmath>

#include "sim/estimate/machine.h"
#include "sim/rates/rates.h"

namespace trireme::sim {

class SheetRates final : public Rates {
 public:
  explicit SheetRates(const Machine& machine);
  // ConfigError where the platform has no data sheet, or none of a peak in this format.
  SheetRates(const platform::PlatformSpec& platform, const platform::DeviceEfficiency& device,
             const platform::StackBehaviour& stack, ComputeFormat compute);

  // A matmul of small operands reaches less, one of thin ones is bound by memory. Attention fills the matrix units only
  // with heads of 128 and more.
  double operator_s(const Operator& op) const override {
    switch (op.kind) {
      case OperatorKind::matmul: {
        const double rate = op.narrow ? machine_.flops_narrow : machine_.flops_16;
        const double fill = 1 + machine_.half_rows * (1 / op.m + 1 / op.n + 1 / op.k);
        return std::max(op.flops / rate * fill, op.bytes / machine_.memory_bytes);
      }
      case OperatorKind::attention:
        return op.flops / machine_.attention_flops * std::sqrt(std::max(1.0, 128 / op.head_dim));
      default:
        return op.bytes / machine_.memory_bytes;
    }
  }
  double memory_s(platform::MemoryUse, double bytes) const override { return bytes / machine_.memory_bytes; }
  double collective_s(CollectiveKind kind, const GroupPlace& group, double bytes) const override;
  // A node is the last level inside of one, with a member's share of every link while all devices send. Data sheets give
  // no time for a message: eight are under way at a time (as plan::PatternOptions has it), and inside of a node a
  // member reaches all others in as many turns as a tree has levels. Exchanges that deduplicate or gather are streamed.
  Fabric fabric(const plan::NodeShape& shape, double stride) const override;
  double segment_factor(const SegmentOfRank&) const override { return 1; }
  double load_cv(double) const override { return 0; }

  const Machine& machine() const { return machine_; }

 private:
  Machine machine_;
};

}  // namespace trireme::sim
