#include "nn/fused_backward.h"

#include "base/errors.h"

namespace trireme::nn::fused {
namespace {

using model::Segment;

template <class T>
Boundary input_half(const SegmentContext& c, Saved&& saved, const Boundary& gradient, WeightWork& work) {
  switch (saved.segment) {
    case Segment::embed:
      return embed_backward_input<T>(std::move(saved), gradient, work);
    case Segment::shared:
      return shared_backward_input<T>(c, std::move(saved), gradient, work);
    case Segment::experts:
      return experts_backward_input<T>(c, std::move(saved), gradient, work);
    case Segment::combine:
      return combine_backward<T>(c, std::move(saved), gradient);
    case Segment::mlp:
      return mlp_backward_input<T>(c, std::move(saved), gradient, work);
    case Segment::head:
      return head_backward(std::move(saved));
    case Segment::attention:
    case Segment::dispatch:
    case Segment::none:
      break;
  }
  TRIREME_CHECK(false, "segment {} has no such backward", model::name_of(saved.segment));
  return {};
}

template <class T>
void weight_half(const SegmentContext& c, WeightWork&& work) {
  switch (work.segment) {
    case Segment::embed:
      return embed_backward_weight<T>(c, std::move(work));
    case Segment::attention:
      return attention_backward_weight<T>(c, std::move(work));
    case Segment::shared:
      return shared_backward_weight<T>(c, std::move(work));
    case Segment::experts:
      return experts_backward_weight<T>(c, std::move(work));
    case Segment::mlp:
      return mlp_backward_weight<T>(c, std::move(work));
    case Segment::combine:
    case Segment::head:
    case Segment::dispatch:
    case Segment::none:
      break;
  }
  TRIREME_CHECK(false, "segment {} has no work left for weights", model::name_of(work.segment));
}

template <class T>
Boundary run(const SegmentContext& c, Saved&& saved, const Boundary& gradient, const LossSeeds& seeds,
             WeightWork* work) {
  if (saved.segment == Segment::attention) return attention_backward<T>(c, std::move(saved), gradient, seeds, work);
  WeightWork at_once{.segment = saved.segment, .layer = saved.layer};
  Boundary out = input_half<T>(c, std::move(saved), gradient, work != nullptr ? *work : at_once);
  if (!at_once.empty()) weight_half<T>(c, std::move(at_once));
  return out;
}

}  // namespace

Boundary backward(const SegmentContext& c, Saved&& saved, const Boundary& gradient, const LossSeeds& seeds,
                  WeightWork* work) {
  return c.options.dtype == at::kDouble ? run<double>(c, std::move(saved), gradient, seeds, work)
                                        : run<float>(c, std::move(saved), gradient, seeds, work);
}

void backward_weight(const SegmentContext& c, WeightWork&& work) {
  c.options.dtype == at::kDouble ? weight_half<double>(c, std::move(work)) : weight_half<float>(c, std::move(work));
}

}  // namespace trireme::nn::fused
