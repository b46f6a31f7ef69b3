// The segments as fused CPU kernels with hand-written backwards (float32 and float64). Only what a backward can't
// cheaply recompute is kept: configs/kernels/trireme.toml describes it.
#pragma once
#include "nn/boundary.h"
#include "nn/composite.h"
#include "nn/saved.h"

namespace trireme::nn::fused {

// Whether these apply; else composite does.
bool applies(const ModelOptions& options);

// Forwards. `saved`: filled for the backward; null where there is none.
Boundary embed(const SegmentContext& context, const Boundary& in, const Batch& batch, Saved* saved);
Boundary attention(const SegmentContext& context, const Boundary& in, const Batch& batch, Saved* saved);
// Of tokens that follow those of a cache (Model::extend).
Boundary extend_attention(const SegmentContext& context, const Boundary& in, const NewTokens& tokens,
                          KeyValueCache::Layer& cache);
Boundary shared(const SegmentContext& context, const Boundary& in, Saved* saved);
Boundary experts(const SegmentContext& context, const Boundary& in, Saved* saved);
Boundary combine(const SegmentContext& context, const Boundary& in, Saved* saved);
Boundary mlp(const SegmentContext& context, const Boundary& in, Saved* saved);
Boundary head(const SegmentContext& context, const Boundary& in, const Batch& batch, double seed, Saved* saved);

// Backwards of what `saved.segment` says; `gradient` holds those of the fields written, the result those of the fields
// read. `work`: gets what backward_weight needs; null: the weights' gradients are added here, which takes less memory
// than both in turn and gives the same bits.
Boundary backward(const SegmentContext& context, Saved&& saved, const Boundary& gradient, const LossSeeds& seeds,
                  WeightWork* work);
void backward_weight(const SegmentContext& context, WeightWork&& work);

}  // namespace trireme::nn::fused
