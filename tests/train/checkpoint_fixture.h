// A small model cut over any mesh, for checkpoint tests: every rank's part, optimizer and ownership in one process.
#pragma once
#include <memory>
#include <vector>

#include "nn/model.h"
#include "plan/mesh.h"
#include "train/checkpoint/training_tensors.h"
#include "train/optim/adamw.h"
#include "train/optim/ownership.h"

namespace trireme::train {

inline model::ModelSpec small_model() {
  model::ModelSpec spec{
      .name = "small", .vocab_size = 29, .hidden = 8, .num_layers = 4, .num_dense_layers = 1, .dense_ffn = 12};
  spec.attention = {.num_heads = 2, .num_kv_heads = 1, .head_dim = 4, .qk_norm = true};
  spec.moe = {.num_experts = 4, .expert_ffn = 6, .shared_ffn = 5};
  spec.moe.router = {.top_k = 2, .selection_bias = true};
  return spec;
}

struct RankPart {
  Ownership ownership;
  std::unique_ptr<nn::Model> model;
  std::unique_ptr<AdamW> optimizer;

  std::vector<NamedTensor> owned() const { return owned_tensors(*model, optimizer.get(), ownership); }
  std::vector<NamedTensor> hosted() const { return hosted_tensors(*model, optimizer.get()); }
};

// The part of `rank`: layers split evenly over pp, experts in runs over ep, the ends on the first and last stage.
inline RankPart make_rank(const model::ModelSpec& spec, const plan::Mesh& mesh, int rank,
                          at::ScalarType dtype = at::kFloat) {
  const int stage = mesh.pp_index(rank), layers = spec.num_layers / mesh.pp, experts = spec.moe.num_experts / mesh.ep;
  nn::Hosted hosted{.layers = {.first_layer = stage * layers, .num_layers = layers, .embed = stage == 0, .head = stage == mesh.pp - 1}};
  for (int i = 0; i < experts; ++i) hosted.experts.push_back(mesh.ep_index(rank) * experts + i);
  RankPart out{.ownership = {.mesh = mesh, .rank = rank}};
  out.model = std::make_unique<nn::Model>(spec, hosted, nn::ModelOptions{.dtype = dtype});
  out.optimizer = std::make_unique<AdamW>(out.model->parameters(), AdamWOptions{});
  return out;
}

inline std::vector<RankPart> make_ranks(const model::ModelSpec& spec, const plan::Mesh& mesh,
                                        at::ScalarType dtype = at::kFloat) {
  std::vector<RankPart> ranks;
  for (int rank = 0; rank < mesh.world(); ++rank) ranks.push_back(make_rank(spec, mesh, rank, dtype));
  return ranks;
}

// Fills every tensor with values that depend on its global name alone, so replicas agree and no two tensors do.
void fill_by_name(const std::vector<NamedTensor>& tensors);

// Runs `body(rank)` for all ranks at once, each in a thread of its own, and rethrows the first error.
void for_all_ranks(int num_ranks, const std::function<void(int)>& body);

}  // namespace trireme::train
