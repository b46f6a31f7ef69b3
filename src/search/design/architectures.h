// Architectures of a budget: mixture-of-experts models whose parameters (or FLOPs a token) come out at what was asked
// for.
#pragma once
#include <string>
#include <vector>

#include "model/model_spec.h"

namespace trireme::search {

struct DesignBudget {
  double total = 0;            // parameters, without MTP blocks; 0: not asked
  double active = 0;           // of a token; 0: not asked
  double flops_per_token = 0;  // forward and backward, flops.h's default convention; 0: not asked
  double tolerance = 0.05;     // of each
};

// What is tried. The width of experts follows from the budget, in multiples of 128.
struct DesignSpace {
  std::vector<int> hidden;  // empty: 2,048 to 16,384 in steps of 512, above 6,144 of 1,536
  std::vector<int> layers;  // empty: hidden / layers from 80 to 160, in steps of a twelfth
  std::vector<int> experts = {64, 128, 256, 512};
  std::vector<int> top_k = {4, 6, 8};
  std::vector<int> shared = {0, 1};  // experts of the same width that every token uses
  std::vector<model::AttentionKind> attention = {model::AttentionKind::grouped, model::AttentionKind::latent};
  int dense_layers = 3;  // the first ones; their feed-forward is as wide as the experts that a token uses
  std::int64_t vocab_size = 129280;
  std::int64_t sequence_length = 4096;  // of FLOPs
};

// In the order of the space's lists; named "61 x 7680, 256 experts of 2048, top 8 + 1, mla".
std::vector<model::ModelSpec> architectures(const DesignBudget& budget, const DesignSpace& space = {});

// One architecture of the space.
struct Shape {
  int layers = 0, hidden = 0, experts = 0, top_k = 0, shared = 0, expert_ffn = 0;
  model::AttentionKind attention = model::AttentionKind::grouped;
};
model::ModelSpec architecture(const Shape& shape, const DesignSpace& space);

}  // namespace trireme::search
