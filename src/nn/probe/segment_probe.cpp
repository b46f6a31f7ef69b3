#include "nn/probe/segment_probe.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "nn/model.h"

namespace trireme::nn {
namespace {

using model::Segment;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double median(std::vector<double>& values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return std::max(values[values.size() / 2], 1e-9);
}

// Standard deviation over the mean.
double variation(const std::vector<std::int64_t>& counts) {
  double sum = 0, squares = 0;
  for (const std::int64_t c : counts) sum += static_cast<double>(c), squares += static_cast<double>(c) * static_cast<double>(c);
  if (sum <= 0) return 0;
  const double n = static_cast<double>(counts.size());
  return std::sqrt(std::max(0.0, squares / n - sum / n * (sum / n))) / (sum / n);
}

// A segment's place in a pass.
struct SegmentCall {
  Segment segment = Segment::none;
  int layer = -1;
  Boundary seeds;  // of its backward: the same in every pass
};

// Of one call in one pass.
struct Lengths {
  double forward_s = 0, backward_s = 0;
  double forward_processor_s = 0, backward_processor_s = 0;
};

// Runs a piece of work and adds what it took.
template <class Work>
void timed(double& seconds, double& processor_s, Work work) {
  const auto start = Clock::now();
  const double processor = processor_seconds();
  work();
  seconds = since(start);
  processor_s = processor_seconds() - processor;
}

}  // namespace

class SegmentWork::Prober {
 public:
  Prober(const model::ModelSpec& spec, const model::SegmentShape& shape, const ProbeOptions& options)
      : spec_(spec), shape_(shape), o_(options), model_(spec, hosted(), {.device = o_.device, .dtype = o_.dtype}) {
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
    calls_ = calls();
  }

  // A part of `visits` equal ones.
  void collect(int visits) {
    const double budget_s = (o_.quick ? 0.03 : 0.12) * static_cast<double>(calls_.size()) / visits;
    const int least = (2 + visits) / visits;
    pass();  // warm-up
    forward_s_.resize(calls_.size()), backward_s_.resize(calls_.size());
    const auto begin = Clock::now();
    for (int i = 0; i < least || (since(begin) < budget_s && i < 400); ++i) {
      pass();
      for (std::size_t c = 0; c < calls_.size(); ++c) {
        const std::size_t kind = first_alike(c);
        forward_s_[kind].push_back(lengths_[c].forward_s);
        backward_s_[kind].push_back(lengths_[c].backward_s);
      }
    }
  }

  // Of all that was collected.
  ShapeSamples samples() {
    ShapeSamples out;
    for (std::size_t c = 0; c < calls_.size(); ++c)
      if (first_alike(c) == c) out.segments.push_back({calls_[c].segment, calls_[c].layer, median(forward_s_[c]), median(backward_s_[c])});
    if (!load_cv_.empty()) out.load_cv = std::accumulate(load_cv_.begin(), load_cv_.end(), 0.0) / static_cast<double>(load_cv_.size());
    return out;
  }

  double bytes() const {
    double elements = 2.0 * static_cast<double>(spec_.vocab_size) * spec_.hidden;
    const model::LayerRange p = hosted().layers;
    for (int layer = p.first_layer; layer < p.first_layer + p.num_layers; ++layer) elements += elements_of(layer);
    return 8 * elements;
  }

  Result work(double seconds) {
    std::vector<std::vector<double>> processor(2 * calls_.size());
    const auto begin = Clock::now();
    int passes = 0;
    do {
      pass();
      for (std::size_t c = 0; c < calls_.size(); ++c) {
        processor[2 * c].push_back(lengths_[c].forward_processor_s);
        processor[2 * c + 1].push_back(lengths_[c].backward_processor_s);
      }
      ++passes;
    } while (since(begin) < seconds);
    // All of the time, also what is between the pieces: a core is most often taken away where memory is asked for.
    Result out{.pass_s = since(begin) / passes};
    for (const auto& of_piece : processor) {
      const double mean = std::accumulate(of_piece.begin(), of_piece.end(), 0.0) / passes;
      if (mean < 50e-6) continue;
      for (const double l : of_piece) out.relative.push_back(l / mean);
    }
    return out;
  }

 private:
  // Layers of both kinds where the model has both, as many as make the caches as cold as in a stage of several layers.
  Hosted hosted() const {
    constexpr int most_layers = 4;
    constexpr double most_elements = 256e6;
    const bool both = spec_.num_dense_layers > 0 && spec_.num_moe_layers() > 0;
    Hosted out{.layers = {.first_layer = both ? spec_.num_dense_layers - 1 : 0, .embed = true, .head = true}};
    out.experts.resize(spec_.moe.num_experts > 0 ? static_cast<std::size_t>(shape_.local_experts) : 0);
    std::iota(out.experts.begin(), out.experts.end(), 0);
    model::LayerRange& p = out.layers;
    double elements = 0;
    const int least = both ? 2 : 1;
    while (p.first_layer + p.num_layers < spec_.num_layers && p.num_layers < most_layers) {
      elements += elements_of(p.first_layer + p.num_layers);
      if (p.num_layers >= least && elements > most_elements) break;
      ++p.num_layers;
    }
    return out;
  }

  double elements_of(int layer) const {
    const double h = spec_.hidden, heads = spec_.attention.num_heads + 2 * spec_.attention.num_kv_heads;
    const double attention = h * spec_.attention.head_dim * (heads + spec_.attention.num_heads);
    if (!spec_.is_moe(layer)) return attention + 3 * h * spec_.dense_ffn;
    return attention + 3 * h * (static_cast<double>(shape_.local_experts) * spec_.moe.expert_ffn + spec_.moe.shared_ffn);
  }

  std::vector<SegmentCall> calls() const {
    std::vector<SegmentCall> out = {{.segment = Segment::embed}};
    const model::LayerRange p = hosted().layers;
    for (int layer = p.first_layer; layer < p.first_layer + p.num_layers; ++layer)
      for (const Segment segment : model::computing_segments(spec_, layer))
        out.push_back({.segment = segment, .layer = layer});
    out.push_back({.segment = Segment::head});
    return out;
  }

  // The first call of the same segment in a layer of the same kind.
  std::size_t first_alike(std::size_t call) const {
    const auto kind = [&](const SegmentCall& c) { return std::pair{c.segment, c.layer >= 0 && spec_.is_moe(c.layer)}; };
    for (std::size_t c = 0; c < call; ++c)
      if (kind(calls_[c]) == kind(calls_[call])) return c;
    return call;
  }

  // One micro-batch through all calls and back, each timed.
  void pass() {
    lengths_.assign(calls_.size(), {});
    load_cv_.clear();
    std::vector<Saved> saved(calls_.size());
    Boundary at, sent;
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      SegmentCall& c = calls_[i];
      if (c.segment == Segment::experts) {
        sent = at;
        receive_rows(at);
      } else if (c.segment == Segment::combine) {
        // Back on the tokens' own rank: as many rows as were sent, in its own order.
        at.routing = sent.routing;
        at.x_TD = sent.x_TD;
        at.rows_RD = shape_.rows_received >= shape_.rows_sent ? at.rows_RD.slice(0, 0, shape_.rows_sent) : returned_RD_;
      }
      Boundary out;
      timed(lengths_[i].forward_s, lengths_[i].forward_processor_s, [&] {
        Model::Forward forward = model_.forward_saving(c.segment, c.layer, at, batch_, 1.0);
        out = std::move(forward.out);
        saved[i] = std::move(forward.saved);
        if (!o_.device.is_cpu()) wait();
      });
      at = std::move(out);
      if (c.segment == Segment::attention && at.routing) load_cv_.push_back(variation(at.routing->counts_E));
      for (const Field f : fields_written(spec_, c.segment, c.layer)) {
        const at::Tensor& value = field(at, f);
        if (value.defined() && value.dim() > 0 && !field(c.seeds, f).defined())
          field(c.seeds, f) = at::full_like(value, 1e-3);
      }
      at.loss = at.aux_loss = at.z_loss = at::Tensor();
    }
    for (std::size_t i = calls_.size(); i-- > 0;) {
      SegmentCall& c = calls_[i];
      timed(lengths_[i].backward_s, lengths_[i].backward_processor_s, [&] {
        model_.backward(std::move(saved[i]), c.seeds, {1e-3, 1e-3});
        if (!o_.device.is_cpu()) wait();
      });
    }
  }

  // What dispatch would bring: equal runs from every source for every expert. The same rows for every layer.
  void receive_rows(Boundary& at) {
    const auto cells = static_cast<std::int64_t>(shape_.ep) * shape_.local_experts;
    at.received_counts_PE.assign(static_cast<std::size_t>(cells), 0);
    for (std::int64_t i = 0; i < cells; ++i)
      at.received_counts_PE[static_cast<std::size_t>(i)] = shape_.rows_received / cells + (i < shape_.rows_received % cells ? 1 : 0);
    if (!received_RD_.defined()) {
      const at::NoGradGuard no_grad;
      const auto options = at.x_TD.options().requires_grad(false);
      received_RD_ = at::randn({shape_.rows_received, spec_.hidden}, options).mul_(0.5);
      received_R_ = at::rand({shape_.rows_received}, at.scores_R.options().requires_grad(false));
      returned_RD_ = at::randn({shape_.rows_sent, spec_.hidden}, options);
    }
    at.rows_RD = received_RD_;
    at.scores_R = received_R_;
  }

  void wait() const { at::zeros({1}, at::TensorOptions().device(o_.device)).item<float>(); }

  const model::ModelSpec spec_;
  const model::SegmentShape shape_;
  const ProbeOptions o_;
  Model model_;
  Batch batch_;
  at::Tensor received_RD_, received_R_, returned_RD_;
  std::vector<SegmentCall> calls_;
  std::vector<Lengths> lengths_;  // of the last pass, by call
  std::vector<double> load_cv_;   // of the last pass, by routed layer
  std::vector<std::vector<double>> forward_s_, backward_s_;  // by kind of call
};

std::vector<ShapeSamples> probe_segments(const model::ModelSpec& spec, const std::vector<model::SegmentShape>& shapes,
                                         const ProbeOptions& options) {
  constexpr double most_bytes = 2.0 * 1024 * 1024 * 1024;
  const int visits = options.quick ? 2 : 6;
  std::vector<ShapeSamples> out;
  while (out.size() < shapes.size()) {
    std::vector<std::unique_ptr<SegmentWork::Prober>> together;
    double bytes = 0;
    do {
      together.push_back(std::make_unique<SegmentWork::Prober>(spec, shapes[out.size() + together.size()], options));
      bytes += together.back()->bytes();
    } while (out.size() + together.size() < shapes.size() && bytes + together.back()->bytes() <= most_bytes);
    for (int visit = 0; visit < visits; ++visit)
      for (const auto& prober : together) prober->collect(visits);
    for (const auto& prober : together) out.push_back(prober->samples());
  }
  return out;
}

SegmentWork::SegmentWork(const model::ModelSpec& spec, const model::SegmentShape& shape, const ProbeOptions& options)
    : prober_(std::make_unique<Prober>(spec, shape, options)) {}
SegmentWork::~SegmentWork() = default;
SegmentWork::SegmentWork(SegmentWork&&) noexcept = default;

SegmentWork::Result SegmentWork::run(double seconds) { return prober_->work(seconds); }

std::vector<double> noise_quantiles(std::vector<double> values, int n) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  std::vector<double> out;
  for (int i = 0; i < n; ++i) {
    const double at = static_cast<double>(values.size() - 1) * i / (n - 1);
    const auto low = static_cast<std::size_t>(at), high = std::min(low + 1, values.size() - 1);
    out.push_back(values[low] + (values[high] - values[low]) * (at - static_cast<double>(low)));
  }
  const double mean = (std::accumulate(out.begin(), out.end(), 0.0) - (out.front() + out.back()) / 2) / (n - 1);
  for (double& q : out) q /= mean;
  return out;
}

}  // namespace trireme::nn
