// Measures a model's own segments, forward and backward, on one rank: what the operators' sum leaves out (routing,
// permutation, autograd, caches shared by neighbouring operators) shows as a factor on it.
#pragma once
#include <memory>
#include <vector>

#include "model/operators.h"
#include "nn/probe/compute_probe.h"

namespace trireme::nn {

struct SegmentSample {
  model::Segment segment = model::Segment::none;
  int layer = -1;  // a layer of that kind
  double forward_s = 0, backward_s = 0;  // the head computes its gradient in its forward
};

struct ShapeSamples {
  std::vector<SegmentSample> segments;  // one for each kind
  // How unevenly the routers, with the weights that a run begins with, spread a micro-batch: standard deviation of the rows by
  // expert over their mean, in the mean of the layers. 0 without experts.
  double load_cv = 0;
};

// Micro-batches go through up to four layers (one dense where the model has both kinds) and the ends, and back, as in a
// step: a segment finds the caches as its neighbours left them. `shape.ep` and local_experts as for the run's layout:
// received rows come in equal runs from each source for each expert. By shape, which are visited in turn, several times: a
// machine that is slow for some seconds slows all of them alike. Memory: the parameters of those layers and of the ends
// twice, and the activations of a micro-batch, of one shape or of as many as stay below 2 GiB together.
std::vector<ShapeSamples> probe_segments(const model::ModelSpec& spec, const std::vector<model::SegmentShape>& shapes,
                                         const ProbeOptions& options);

// The same segments as a piece of work that several ranks do at one time: how they slow one another down.
class SegmentWork {
 public:
  SegmentWork(const model::ModelSpec& spec, const model::SegmentShape& shape, const ProbeOptions& options);
  ~SegmentWork();
  SegmentWork(SegmentWork&&) noexcept;

  struct Result {
    double pass_s = 0;             // mean time of one pass over all segments, forward and backward
    std::vector<double> relative;  // of each piece of at least 50 us that was done: its processor time over that piece's
                                   // mean; what a thread waits for a core is not in it
  };
  // Repeats the pass for about `seconds`, at least once.
  Result run(double seconds);

  class Prober;

 private:
  std::unique_ptr<Prober> prober_;
};

// n evenly spaced quantiles, 0 to 1, of values, scaled so that drawing from them (linear between) gives 1 in the mean.
// Empty for no values.
std::vector<double> noise_quantiles(std::vector<double> values, int n = 101);

}  // namespace trireme::nn
