#include "nn/router.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "base/errors.h"
#include "nn/fresh.h"

namespace trireme::nn {
namespace {

// Stable, so that ties go to the lower id.
at::Tensor best(const at::Tensor& values, std::int64_t count) {
  return std::get<1>(at::sort(values, /*stable=*/true, /*dim=*/-1, /*descending=*/true)).narrow(-1, 0, count);
}

at::Tensor select(const model::RouterSpec& spec, const at::Tensor& scores_TE, const at::Tensor& selection_bias_E) {
  at::NoGradGuard no_grad;
  at::Tensor choice_TE = scores_TE;
  if (selection_bias_E.defined()) choice_TE = choice_TE + selection_bias_E.to(choice_TE.scalar_type());
  if (spec.num_groups > 1) {
    const std::int64_t tokens = choice_TE.size(0), experts = choice_TE.size(1), size = experts / spec.num_groups;
    const at::Tensor grouped = choice_TE.view({tokens, spec.num_groups, size});
    const at::Tensor strength = std::get<0>(at::sort(grouped, /*stable=*/true, -1, true))
                                    .narrow(-1, 0, std::min<std::int64_t>(2, size))
                                    .sum(-1);
    const at::Tensor open = at::zeros({tokens, spec.num_groups}, choice_TE.options().dtype(at::kBool))
                                .scatter(1, best(strength, spec.top_groups), true);
    choice_TE = grouped.masked_fill(open.logical_not().unsqueeze(-1), -std::numeric_limits<double>::infinity())
                    .view({tokens, experts});
  }
  return best(choice_TE, spec.top_k);
}

}  // namespace

RouterResult route(const model::RouterSpec& spec, const at::Tensor& logits_in, const at::Tensor& selection_bias_E,
                   const at::Tensor& valid_T, std::int64_t num_sequences) {
  const at::Tensor logits_TE = logits_in.to(accumulate_type(logits_in.scalar_type()));
  const std::int64_t tokens = logits_TE.size(0), experts = logits_TE.size(1);
  const bool softmax = spec.score == model::ScoreFunction::softmax;
  const at::Tensor scores_TE = softmax ? at::softmax(logits_TE, -1) : at::sigmoid(logits_TE);

  RouterResult result;
  result.experts_TK = select(spec, scores_TE.detach(), selection_bias_E).contiguous();
  at::Tensor chosen_TK = scores_TE.gather(1, result.experts_TK);
  if (spec.renormalise) {
    // Sigmoid scores may all underflow; softmax scores of the best never do.
    at::Tensor sum_T1 = chosen_TK.sum(-1, /*keepdim=*/true);
    if (!softmax) sum_T1 = sum_T1 + 1e-20;
    chosen_TK = chosen_TK / sum_T1;
  }
  result.scores_TK = spec.scale == 1.0 ? chosen_TK : chosen_TK * spec.scale;

  if (spec.aux_loss_coefficient == 0 && spec.z_loss_coefficient == 0) return result;
  const at::Tensor weight_T =
      valid_T.defined() ? valid_T.to(at::kDouble) : at::ones({tokens}, logits_TE.options().dtype(at::kDouble));
  if (spec.aux_loss_coefficient != 0) {
    at::Tensor probs_TE = softmax ? scores_TE : scores_TE / (scores_TE.sum(-1, true) + 1e-20);
    const std::int64_t pieces = spec.aux_loss_level == model::AuxLossLevel::sequence ? num_sequences : 1;
    const at::Tensor weight = weight_T.view({pieces, -1, 1});
    const at::Tensor length = weight.sum(1).clamp_min(1.0);  // (pieces, 1); a piece of padding alone gives 0 / 1
    const at::Tensor hits_TE = at::zeros({tokens, experts}, weight_T.options()).scatter(1, result.experts_TK, 1.0);
    const at::Tensor counts = (hits_TE.view({pieces, -1, experts}) * weight).sum(1);
    const at::Tensor mean = (probs_TE.to(at::kDouble).view({pieces, -1, experts}) * weight).sum(1) / length;
    result.aux_loss = (counts * mean / length).sum() * (static_cast<double>(experts) / spec.top_k);
  }
  if (spec.z_loss_coefficient != 0)
    result.z_loss = (at::logsumexp(logits_TE, {1}).square().to(at::kDouble) * weight_T).sum();
  return result;
}

std::shared_ptr<const Routing> make_routing(const at::Tensor& experts_TK, std::int64_t num_experts) {
  at::NoGradGuard no_grad;
  const at::Tensor slots_R = experts_TK.reshape({-1});
  auto routing = std::make_shared<Routing>();
  routing->experts_TK = experts_TK;
  routing->order_R = at::argsort(slots_R, /*stable=*/true, /*dim=*/-1, /*descending=*/false);
  routing->inverse_R = at::empty_like(routing->order_R);
  routing->inverse_R.index_put_({routing->order_R}, at::arange(slots_R.size(0), slots_R.options()));
  const at::Tensor counts = at::bincount(slots_R, {}, num_experts).to(at::kCPU);
  const std::int64_t* data = counts.const_data_ptr<std::int64_t>();
  routing->counts_E.assign(data, data + num_experts);
  return routing;
}

}  // namespace trireme::nn
