// The halves of single segments' backwards, between which fused.h's functions choose. All but attention's joint one are
// the two in turn.
#pragma once
#include "nn/fused.h"

namespace trireme::nn::fused {

template <class T>
Boundary embed_backward_input(Saved&& saved, const Boundary& gradient, WeightWork& work);
template <class T>
Boundary attention_backward(const SegmentContext& context, Saved&& saved, const Boundary& gradient,
                            const LossSeeds& seeds, WeightWork* work);
template <class T>
Boundary shared_backward_input(const SegmentContext& context, Saved&& saved, const Boundary& gradient,
                               WeightWork& work);
template <class T>
Boundary experts_backward_input(const SegmentContext& context, Saved&& saved, const Boundary& gradient,
                                WeightWork& work);
template <class T>
Boundary combine_backward(const SegmentContext& context, Saved&& saved, const Boundary& gradient);
template <class T>
Boundary mlp_backward_input(const SegmentContext& context, Saved&& saved, const Boundary& gradient, WeightWork& work);
Boundary head_backward(Saved&& saved);

template <class T>
void embed_backward_weight(const SegmentContext& context, WeightWork&& work);
template <class T>
void attention_backward_weight(const SegmentContext& context, WeightWork&& work);
template <class T>
void shared_backward_weight(const SegmentContext& context, WeightWork&& work);
template <class T>
void experts_backward_weight(const SegmentContext& context, WeightWork&& work);
template <class T>
void mlp_backward_weight(const SegmentContext& context, WeightWork&& work);

}  // namespace trireme::nn::fused
