#include "model/parameters.h"

#include <functional>
#include <numeric>

#include "base/errors.h"
#include "model/flops.h"
#include "model/parameter_lister.h"
#include "model/parameter_parts.h"

namespace trireme::model {
namespace {

void list_moe(const ModelSpec& spec, ParameterLister& list) {
  const MoeSpec& m = spec.moe;
  const std::int64_t hidden = spec.hidden, width = m.latent_dim > 0 ? m.latent_dim : hidden;
  list.linear("router", m.num_experts, hidden, Segment::attention, m.router.bias);
  if (m.latent_dim > 0) list.linear("latent_in", m.latent_dim, hidden, Segment::attention);
  for (int e = 0; e < m.num_experts; ++e)
    list.feed_forward(fmt::format("experts.{}", e), width, m.expert_ffn, Segment::experts, m.expert_bias, e);
  if (m.latent_dim > 0) list.linear("latent_out", hidden, m.latent_dim, Segment::combine);
  if (m.shared_ffn > 0) list.feed_forward("shared", hidden, m.shared_ffn, Segment::shared, false);
  if (m.shared_gate) list.linear("shared_gate", 1, hidden, Segment::shared);
}

// `layer` as of ModelSpec::mixer, which counts on for MTP blocks.
void list_layer(const ModelSpec& spec, int layer, ParameterLister& list) {
  const std::int64_t n = spec.residual_streams, mixes = (2 + n) * n;
  if (spec.mixer(layer) != Mixer::none) {
    list.norm("attention_norm", Segment::attention);
    list_mixer(spec, layer, list);
    if (spec.sandwich_norms) list.norm("post_attention_norm", Segment::attention);
    list.streams("attention_streams", mixes, 3, Segment::attention);
  }
  const FeedForward ffn = spec.feed_forward(layer);
  if (ffn == FeedForward::none) return;
  // The second norm feeds the router, so it lies in `attention` in an MoE layer and in `mlp` in a dense one.
  const bool moe = ffn == FeedForward::moe;
  list.norm("ffn_norm", moe ? Segment::attention : Segment::mlp);
  if (moe)
    list_moe(spec, list);
  else
    list.feed_forward("mlp", spec.hidden, spec.dense_ffn, Segment::mlp, spec.mlp_bias);
  const Segment last = moe ? Segment::combine : Segment::mlp;
  if (spec.sandwich_norms) list.norm("post_ffn_norm", last);
  list.streams("ffn_streams", mixes, 3, last);
}

void list_mtp_block(const ModelSpec& spec, int block, std::vector<ParameterSpec>& out) {
  const int layer = spec.num_layers + block;
  ParameterLister list{spec, out, fmt::format("mtp.{}.", block), layer};
  list.norm("embedding_norm", Segment::attention);
  list.norm("hidden_norm", Segment::attention);
  list.linear("projection", spec.hidden, 2 * std::int64_t{spec.hidden}, Segment::attention);
  list_layer(spec, layer, list);
  list.norm("final_norm", Segment::head);
}

}  // namespace

std::int64_t ParameterSpec::count() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<ParameterSpec> parameters(const ModelSpec& spec) {
  std::vector<ParameterSpec> out;
  ParameterLister ends{spec, out};
  ends.add("embed.weight", {spec.vocab_size, spec.hidden}, Segment::embed);
  if (spec.learned_positions > 0) ends.add("positions.weight", {spec.learned_positions, spec.hidden}, Segment::embed);
  for (int layer = 0; layer < spec.num_layers; ++layer) {
    ParameterLister list{spec, out, fmt::format("layers.{}.", layer), layer};
    list_layer(spec, layer, list);
  }
  for (int block = 0; block < spec.mtp_blocks(); ++block) list_mtp_block(spec, block, out);
  ends.norm("final_norm", Segment::head);
  ends.streams("head_streams", spec.residual_streams, 1, Segment::head);
  if (!spec.tied_embeddings) ends.add("head.weight", {spec.vocab_size, spec.hidden}, Segment::head);
  return out;
}

ParameterCounts count_parameters(const ModelSpec& spec) {
  const ParameterParts all = parameters_of(spec, whole_model(spec, /*mtp=*/false)), active = active_parameters(spec);
  ParameterCounts counts{.total = all.total(), .active = active.total(), .routed_experts = all.routed_experts};
  counts.active_without_embedding = counts.active - (spec.tied_embeddings ? 0 : active.embedding);
  counts.active_matmul = active_matmul_parameters(spec);
  return counts;
}

double training_flops_per_token(const ModelSpec& spec, std::int64_t sequence_length) {
  return flops_per_token(spec, sequence_length).total();
}

}  // namespace trireme::model
