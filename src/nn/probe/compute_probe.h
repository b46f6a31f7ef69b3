// Measures what one rank's device does by itself, through the same code that the model's segments use: matmuls by shape,
// an expert's matmuls by rows, attention, bandwidth-bound passes, the overhead of a call. Nothing else may run meanwhile.
// What the curves hold excludes the overhead of one call (launch_s), which the simulator adds for each.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace trireme::nn {

struct ProbeOptions {
  at::Device device = at::kCPU;
  at::ScalarType dtype = at::kFloat;
  bool quick = false;                                   // fewer shapes: a few seconds in all
  std::function<void(const std::string&)> progress;     // may be empty
};

struct GemmSample {
  std::int64_t m = 0, n = 0, k = 0;
  double flops_per_s = 0;
};

struct GroupedGemmSample {
  std::int64_t rows = 0, n = 0, k = 0, groups = 0;  // rows of one group
  double flops_per_s = 0;
};

struct AttentionSample {  // causal, FLOPs over half of the square; the backward counted as 2.5 forwards
  std::int64_t sequence = 0, heads = 0, head_dim = 0;
  double forward_flops_per_s = 0, backward_flops_per_s = 0;
};

struct BandwidthSample {
  double bytes = 0;  // read and written in one call
  double bytes_per_s = 0;
};

struct ComputeProbe {
  int threads = 1;
  double launch_s = 0;
  double peak_flops_per_s = 0;  // the best of the matmuls
  std::vector<GemmSample> gemm;
  std::vector<GroupedGemmSample> grouped_gemm;
  std::vector<AttentionSample> attention;
  std::vector<BandwidthSample> copy, elementwise, optimizer;
};

// With ATen's present number of threads. About 12 s on two cores, 3 s when quick.
ComputeProbe probe_compute(const ProbeOptions& options);

// Seconds from a thread's change of a condition until another thread that has slept on it for a while runs: half of a
// round trip, the mean over about `seconds`.
double probe_hand_over(double seconds);

}  // namespace trireme::nn
