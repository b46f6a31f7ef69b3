#include "nn/probe/compute_probe.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "nn/cpu/attention.h"
#include "nn/cpu/gemm.h"
#include "nn/cpu/tasks.h"
#include "nn/documents.h"
#include "nn/probe/timing.h"

namespace trireme::nn {
namespace {

using Sizes = std::vector<std::int64_t>;

bool fused(const ProbeOptions& o) { return o.device.is_cpu() && o.dtype == at::kFloat; }

at::Tensor random(const ProbeOptions& o, at::IntArrayRef sizes) {
  return at::rand(sizes, at::TensorOptions().dtype(at::kFloat).device(o.device)).sub_(0.5).to(o.dtype);
}

void say(const ProbeOptions& o, const std::string& text) {
  if (o.progress) o.progress(text);
}

class Prober {
 public:
  explicit Prober(const ProbeOptions& options) : o_(options) { out_.threads = o_.device.is_cpu() ? at::get_num_threads() : 0; }

  ComputeProbe run() {
    const at::NoGradGuard no_grad;
    launch();
    gemm();
    grouped_gemm();
    attention();
    bandwidth();
    return std::move(out_);
  }

 private:
  double seconds(const std::function<void()>& call, double budget_s = 0.02) const {
    return median_seconds(call, {.at_least = 3, .budget_s = o_.quick ? budget_s / 3 : budget_s}, o_.device);
  }
  // Without the overhead that the simulator adds; never less than half, so that noise can't make a rate infinite.
  double work_seconds(const std::function<void()>& call, double budget_s = 0.02) const {
    const double s = seconds(call, budget_s);
    return std::max(s - out_.launch_s, s / 2);
  }

  void launch() {
    const at::Tensor a = random(o_, {8}), b = random(o_, {8});
    at::Tensor c = random(o_, {8});
    out_.launch_s = seconds([&] { at::add_out(c, a, b); }, 0.05);
    say(o_, fmt::format("a call takes {:.2f} us", out_.launch_s * 1e6));
  }

  void gemm() {
    const Sizes ms = o_.quick ? Sizes{16, 128, 1024} : Sizes{16, 64, 256, 1024};
    const Sizes ns = o_.quick ? Sizes{64, 512, 2048} : Sizes{64, 256, 1024, 4096};
    const Sizes ks = o_.quick ? Sizes{64, 512} : Sizes{64, 256, 1024};
    for (const auto m : ms)
      for (const auto n : ns)
        for (const auto k : ks) {
          const at::Tensor x = random(o_, {m, k}), w = random(o_, {n, k});
          at::Tensor y = at::empty({m, n}, x.options());
          const double s = work_seconds([&] {
            if (fused(o_))
              cpu::multiply_nt<float>(m, n, k, x.const_data_ptr<float>(), w.const_data_ptr<float>(), 0.0f,
                                      y.mutable_data_ptr<float>());
            else
              at::mm_out(y, x, w.t());
          });
          out_.gemm.push_back({m, n, k, 2.0 * static_cast<double>(m * n * k) / s});
          out_.peak_flops_per_s = std::max(out_.peak_flops_per_s, out_.gemm.back().flops_per_s);
        }
    say(o_, fmt::format("{} matmul shapes, best {:.1f} GFLOP/s", out_.gemm.size(), out_.peak_flops_per_s / 1e9));
  }

  void grouped_gemm() {
    const Sizes rows = o_.quick ? Sizes{4, 32, 256} : Sizes{1, 4, 16, 64, 256};
    const Sizes widths = o_.quick ? Sizes{128, 512} : Sizes{128, 512, 1024};
    const std::int64_t groups = 8;
    double best = 0;
    for (const auto r : rows)
      for (const auto n : widths)
        for (const auto k : widths) {
          const at::Tensor x = random(o_, {groups, r, k}), w = random(o_, {groups, n, k});
          at::Tensor y = at::empty({groups, r, n}, x.options());
          const double s = work_seconds([&] {
            if (fused(o_))
              cpu::parallel_tasks(groups, [&](std::int64_t g, int) {
                cpu::gemm<float>(r, n, k, {x.const_data_ptr<float>() + g * r * k, k},
                                 {w.const_data_ptr<float>() + g * n * k, k, true}, 0.0f,
                                 y.mutable_data_ptr<float>() + g * r * n, n);
              });
            else
              at::bmm_out(y, x, w.transpose(1, 2));
          });
          out_.grouped_gemm.push_back({r, n, k, groups, 2.0 * static_cast<double>(groups * r * n * k) / s});
          best = std::max(best, out_.grouped_gemm.back().flops_per_s);
        }
    say(o_, fmt::format("{} shapes of grouped matmuls, best {:.1f} GFLOP/s", out_.grouped_gemm.size(), best / 1e9));
  }

  void attention() {
    const Sizes sequences = o_.quick ? Sizes{64, 512} : Sizes{64, 256, 1024};
    const Sizes heads = {4, 16};
    const Sizes dims = o_.quick ? Sizes{64} : Sizes{32, 64, 128};
    double best = 0;
    for (const auto s : sequences)
      for (const auto h : heads)
        for (const auto d : dims) {
          const double flops = 4.0 / 2 * static_cast<double>(s * s * h * d);
          const auto [forward, backward] = attention_seconds(s, h, d);
          out_.attention.push_back({s, h, d, flops / forward, 2.5 * flops / backward});
          best = std::max(best, flops / forward);
        }
    say(o_, fmt::format("{} shapes of attention, best {:.1f} GFLOP/s", out_.attention.size(), best / 1e9));
  }

  std::pair<double, double> attention_seconds(std::int64_t s, std::int64_t h, std::int64_t d) const {
    if (fused(o_)) {
      const at::Tensor q = random(o_, {s, h * d}), k = random(o_, {s, h * d}), v = random(o_, {s, h * d});
      const at::Tensor out = at::empty_like(q), lse = at::empty({s, h}, q.options()), dout = random(o_, {s, h * d});
      const at::Tensor dq = at::empty_like(q), dk = at::empty_like(q), dv = at::empty_like(q);
      const cpu::AttentionShape shape{.query_heads = h, .kv_heads = h, .head_dim = d, .sequence_length = s};
      const std::vector<DocumentSpan> spans = {{.sequence = 0, .begin = 0, .length = s}};
      const auto read = [&](const at::Tensor& t) { return cpu::Heads<const float>{t.const_data_ptr<float>(), h * d}; };
      const auto write = [&](const at::Tensor& t) { return cpu::Heads<float>{t.mutable_data_ptr<float>(), h * d}; };
      const double forward = work_seconds([&] {
        cpu::attention_forward<float>(shape, spans, read(q), read(k), read(v), out.mutable_data_ptr<float>(),
                                      lse.mutable_data_ptr<float>());
      });
      const double backward = work_seconds([&] {
        cpu::attention_backward<float>(shape, spans, read(q), read(k), read(v), out.const_data_ptr<float>(),
                                       lse.const_data_ptr<float>(), dout.const_data_ptr<float>(), write(dq), write(dk),
                                       write(dv));
      });
      return {forward, backward};
    }
    const at::Tensor q = random(o_, {1, h, s, d}), k = random(o_, {1, h, s, d}), v = random(o_, {1, h, s, d});
    const double forward = work_seconds([&] { at::scaled_dot_product_attention(q, k, v, {}, 0.0, true); });
    const at::AutoGradMode grad(true);
    for (const at::Tensor& t : {q, k, v}) t.requires_grad_(true);
    const at::Tensor seed = random(o_, {1, h, s, d});
    const double both = work_seconds([&] {
      const at::Tensor out = at::scaled_dot_product_attention(q, k, v, {}, 0.0, true);
      torch::autograd::grad({out}, {q, k, v}, {seed});
    });
    return {forward, std::max(both - forward, forward)};
  }

  void bandwidth() {
    const std::vector<double> sizes = o_.quick ? std::vector<double>{1 << 16, 1 << 20, 1 << 25}
                                               : std::vector<double>{1 << 14, 1 << 17, 1 << 20, 1 << 23, 1 << 26};
    const double element = static_cast<double>(c10::elementSize(o_.dtype));
    for (const double bytes : sizes) {
      const auto half = static_cast<std::int64_t>(bytes / 2 / element), third = static_cast<std::int64_t>(bytes / 3 / element);
      const at::Tensor from = random(o_, {half}), a = random(o_, {third}), b = random(o_, {third});
      at::Tensor to = at::empty_like(from), c = at::empty_like(a);
      out_.copy.push_back({bytes, bytes / work_seconds([&] { to.copy_(from); })});
      out_.elementwise.push_back({bytes, bytes / work_seconds([&] { at::add_out(c, a, b); })});
      // AdamW reads value, gradient and two moments and writes all but the gradient. A step meets its state cold: sets of
      // tensors in turn, more than a core's caches hold.
      const auto seventh = static_cast<std::int64_t>(bytes / 7 / 4);
      const auto floats = at::TensorOptions().dtype(at::kFloat).device(o_.device);
      std::vector<std::array<at::Tensor, 4>> sets(static_cast<std::size_t>(std::clamp(64.0 * (1 << 20) / bytes, 1.0, 256.0)));
      for (auto& [w, g, m, v] : sets)
        w = at::rand({seventh}, floats), g = at::rand({seventh}, floats), m = at::zeros({seventh}, floats), v = at::zeros({seventh}, floats);
      std::size_t turn = 0;
      out_.optimizer.push_back({bytes, bytes / work_seconds([&] {
                                  const auto& [w, g, m, v] = sets[turn++ % sets.size()];
                                  adamw(w, g, m, v);
                                })});
    }
    say(o_, fmt::format("memory {:.1f} GB/s copied", out_.copy.back().bytes_per_s / 1e9));
  }

  static void adamw(const at::Tensor& w, const at::Tensor& g, const at::Tensor& m, const at::Tensor& v) {
    if (!w.is_cpu()) {
      m.lerp_(g, 0.1);
      v.mul_(0.95).addcmul_(g, g, 0.05);
      w.mul_(0.999).addcdiv_(m, v.sqrt().add_(1e-8), -1e-9);
      return;
    }
    float *pw = w.mutable_data_ptr<float>(), *pm = m.mutable_data_ptr<float>(), *pv = v.mutable_data_ptr<float>();
    const float* pg = g.const_data_ptr<float>();
    at::parallel_for(0, w.numel(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        pm[i] += 0.1f * (pg[i] - pm[i]);
        pv[i] = 0.95f * pv[i] + 0.05f * pg[i] * pg[i];
        pw[i] = 0.999f * pw[i] - 1e-9f * pm[i] / (std::sqrt(pv[i]) + 1e-8f);
      }
    });
  }

  const ProbeOptions o_;
  ComputeProbe out_;
};

}  // namespace

ComputeProbe probe_compute(const ProbeOptions& options) { return Prober(options).run(); }

}  // namespace trireme::nn
