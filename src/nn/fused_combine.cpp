#include <ATen/ATen.h>

#include "base/errors.h"
#include "nn/cpu/permute.h"
#include "nn/fresh.h"
#include "nn/fused_backward.h"

// Legend: T tokens, D hidden, R rows, K top-k.
namespace trireme::nn::fused {
namespace {

using namespace cpu;

template <class T>
Boundary run_combine(const SegmentContext& c, const Boundary& in, Saved* saved) {
  const std::int64_t hidden = in.x_TD.size(1), tokens = in.x_TD.size(0), top_k = c.spec.moe.router.top_k;
  const at::Tensor x = in.x_TD.contiguous(), rows = in.rows_RD.contiguous();
  const at::Tensor shared = in.shared_TD.defined() ? in.shared_TD.contiguous() : at::Tensor();
  TRIREME_CHECK(rows.size(0) == tokens * top_k, "{} rows came back for {} tokens", rows.size(0), tokens);
  Boundary out;
  out.x_TD = fresh(x.sizes(), x.options());
  at::parallel_for(0, tokens, 32, [&](std::int64_t begin, std::int64_t end) {
    sum_slots(begin, end, hidden, top_k, in.routing->inverse_R.const_data_ptr<std::int64_t>(), rows.const_data_ptr<T>(),
              x.const_data_ptr<T>(), shared.defined() ? shared.const_data_ptr<T>() : nullptr,
              out.x_TD.mutable_data_ptr<T>());
  });
  if (saved != nullptr) saved->routing = in.routing;
  return out;
}

}  // namespace

template <class T>
Boundary combine_backward(const SegmentContext& c, Saved&& saved, const Boundary& gradient) {
  // The residual's and the shared expert's gradients are the output's own.
  const at::Tensor dx = gradient.x_TD.contiguous();
  const std::int64_t hidden = dx.size(1), rows = saved.routing->order_R.size(0);
  Boundary out;
  out.x_TD = dx;
  if (c.spec.moe.shared_ffn > 0) out.shared_TD = dx;
  out.rows_RD = fresh({rows, hidden}, dx.options());
  gather_rows<T>(rows, hidden, c.spec.moe.router.top_k, saved.routing->order_R.template const_data_ptr<std::int64_t>(),
                 dx.const_data_ptr<T>(), out.rows_RD.template mutable_data_ptr<T>());
  return out;
}

template Boundary combine_backward<float>(const SegmentContext&, Saved&&, const Boundary&);
template Boundary combine_backward<double>(const SegmentContext&, Saved&&, const Boundary&);

Boundary combine(const SegmentContext& c, const Boundary& in, Saved* saved) {
  return c.options.dtype == at::kDouble ? run_combine<double>(c, in, saved) : run_combine<float>(c, in, saved);
}

}  // namespace trireme::nn::fused
