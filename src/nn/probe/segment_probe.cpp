#include "nn/probe/segment_probe.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "nn/model.h"
#include "nn/probe/timing.h"

namespace trireme::nn {
namespace {

using model::Segment;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double>& values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return std::max(values[values.size() / 2], 1e-9);
}

class SegmentProber {
 public:
  SegmentProber(const model::ModelSpec& spec, const model::SegmentShape& shape, const ProbeOptions& options)
      : spec_(spec), shape_(shape), o_(options), model_(spec, part(), {.device = o_.device, .dtype = o_.dtype}) {
    const at::NoGradGuard no_grad;
    model_.initialise(1);
    const auto wide = o_.dtype == at::kDouble ? at::kDouble : at::kFloat;
    for (Parameter* p : model_.parameters()) p->grad = at::zeros(p->value.sizes(), p->value.options().requires_grad(false).dtype(wide));
    const auto ints = at::TensorOptions().dtype(at::kLong).device(o_.device);
    const auto B = shape_.sequences, S = shape_.sequence_length;
    batch_.tokens_BS = at::randint(spec_.vocab_size, {B, S}, ints);
    batch_.targets_BS = at::randint(spec_.vocab_size, {B, S}, ints);
    batch_.weights_BS = at::ones({B, S}, ints.dtype(at::kFloat));
    batch_.positions_BS = at::arange(S, ints).expand({B, S}).contiguous();
    batch_.documents_BS = at::zeros({B, S}, ints);
  }

  std::vector<SegmentSample> run() {
    std::vector<SegmentSample> out;
    Boundary at;
    measure(out, Segment::embed, -1, at);
    const Part p = part();
    for (int layer = p.first_layer; layer < p.first_layer + p.num_layers; ++layer) {
      measure(out, Segment::attention, layer, at);
      if (!spec_.is_moe(layer)) {
        measure(out, Segment::mlp, layer, at);
        continue;
      }
      Boundary here = at;
      receive_rows(here);
      measure(out, Segment::experts, layer, here);
      // Back on the tokens' own rank: as many rows as were sent, in its own order.
      here.routing = at.routing;
      here.rows_RD = here.rows_RD.detach().slice(0, 0, shape_.rows_sent).contiguous();
      here.x_TD = at.x_TD;
      at = here;
      measure(out, Segment::combine, layer, at);
    }
    measure(out, Segment::head, -1, at);
    return out;
  }

 private:
  Part part() const {
    Part p{.first_layer = 0, .num_layers = 1};
    if (spec_.num_dense_layers > 0 && spec_.num_moe_layers() > 0) {
      p.first_layer = spec_.num_dense_layers - 1;
      p.num_layers = 2;
    }
    p.experts.resize(spec_.moe.num_experts > 0 ? static_cast<std::size_t>(shape_.local_experts) : 0);
    std::iota(p.experts.begin(), p.experts.end(), 0);
    return p;
  }

  // What dispatch would bring: equal runs from every source for every expert.
  void receive_rows(Boundary& at) const {
    const at::NoGradGuard no_grad;
    const auto cells = static_cast<std::int64_t>(shape_.ep) * shape_.local_experts;
    at.received_counts_PE.assign(static_cast<std::size_t>(cells), 0);
    for (std::int64_t i = 0; i < cells; ++i)
      at.received_counts_PE[static_cast<std::size_t>(i)] = shape_.rows_received / cells + (i < shape_.rows_received % cells ? 1 : 0);
    at.rows_RD = at::randn({shape_.rows_received, spec_.hidden}, at.x_TD.options().requires_grad(false)).mul_(0.5);
    at.scores_R = at::rand({shape_.rows_received}, at.scores_R.options().requires_grad(false));
  }

  void wait() const { at::zeros({1}, at::TensorOptions().device(o_.device)).item<float>(); }

  // Times the segment from `at`, and makes `at` its output.
  void measure(std::vector<SegmentSample>& out, Segment segment, int layer, Boundary& at) {
    const auto read = fields_read(spec_, segment, layer), written = fields_written(spec_, segment, layer);
    std::vector<double> forward_s, backward_s;
    Boundary result;
    const auto begin = Clock::now();
    const double budget_s = o_.quick ? 0.1 : 0.3;
    for (int i = 0; i < 4 || (since(begin) < budget_s && i < 200); ++i) {
      Boundary in = at, seeds;
      for (const Field f : read)
        if (field(in, f).defined()) field(in, f) = field(in, f).detach().requires_grad_(true);
      auto start = Clock::now();
      {
        const at::AutoGradMode grad(true);
        result = model_.forward(segment, layer, in, batch_, 1.0);
      }
      if (!o_.device.is_cpu()) wait();
      const double forward = since(start);
      for (const Field f : written)
        if (field(result, f).defined() && field(result, f).dim() > 0) field(seeds, f) = at::full_like(field(result, f), 1e-3);
      start = Clock::now();
      backward(spec_, segment, layer, in, result, seeds, {1e-3, 1e-3});
      if (!o_.device.is_cpu()) wait();
      if (i == 0) continue;  // warm-up
      forward_s.push_back(forward);
      backward_s.push_back(since(start));
    }
    out.push_back({segment, layer, median(forward_s), median(backward_s)});
    for (const Field f : written)
      if (field(result, f).defined()) field(result, f) = field(result, f).detach();
    at = std::move(result);
    at.loss = at.aux_loss = at.z_loss = at::Tensor();
  }

  const model::ModelSpec& spec_;
  const model::SegmentShape shape_;
  const ProbeOptions o_;
  Model model_;
  Batch batch_;
};

}  // namespace

std::vector<SegmentSample> probe_segments(const model::ModelSpec& spec, const model::SegmentShape& shape,
                                          const ProbeOptions& options) {
  return SegmentProber(spec, shape, options).run();
}

}  // namespace trireme::nn
