// The segments as fused CPU kernels with hand-written backwards (float32 and float64): each segment is one autograd
// node. Only what a backward can't cheaply recompute is kept: configs/kernels/trireme.toml describes it.
#pragma once
#include "nn/boundary.h"
#include "nn/composite.h"

namespace trireme::nn::fused {

// Whether these apply; else composite does.
bool applies(const ModelOptions& options);

Boundary embed(const SegmentContext& context, const Boundary& in, const Batch& batch);
Boundary attention(const SegmentContext& context, const Boundary& in, const Batch& batch);
// Of tokens that follow those of a cache (Model::extend).
Boundary extend_attention(const SegmentContext& context, const Boundary& in, const NewTokens& tokens,
                          KeyValueCache::Layer& cache);
Boundary shared(const SegmentContext& context, const Boundary& in);
Boundary experts(const SegmentContext& context, const Boundary& in);
Boundary combine(const SegmentContext& context, const Boundary& in);
Boundary mlp(const SegmentContext& context, const Boundary& in);
Boundary head(const SegmentContext& context, const Boundary& in, const Batch& batch, double seed);

}  // namespace trireme::nn::fused
