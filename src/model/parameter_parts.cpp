#include "model/parameter_parts.h"

#include "model/description/whole_weights.h"

namespace trireme::model {
namespace {

std::int64_t& part_of(ParameterParts& parts, WeightRole role) {
  switch (role) {
    case WeightRole::embedding:
      return parts.embedding;
    case WeightRole::attention:
      return parts.attention;
    case WeightRole::norms:
      return parts.norms;
    case WeightRole::router:
      return parts.router;
    case WeightRole::routed_experts:
      return parts.routed_experts;
    case WeightRole::shared_experts:
      return parts.shared_experts;
    case WeightRole::dense:
      return parts.dense;
    case WeightRole::mtp:
      return parts.mtp;
    case WeightRole::head:
      break;
  }
  return parts.head;
}

// `experts`: routed ones that count; 0: all that the rank has.
ParameterParts count(const WeightList& weights, double experts = 0) {
  ParameterParts out;
  for (const Weight& w : weights) {
    const double times = w.place == WeightPlace::expert && experts > 0 ? experts : w.count;
    part_of(out, w.role) += static_cast<std::int64_t>(w.rows * w.columns * times);  // whole, and below 2^53
  }
  return out;
}

std::int64_t table(const ModelSpec& spec, const ShardDegrees& shards) {
  for (const Weight& w : whole_embedding_weights(spec, shards))
    if (w.place == WeightPlace::tensor) return static_cast<std::int64_t>(w.elements());
  return 0;
}

ParameterParts count(const ModelSpec& spec, const LayerRange& range, const ShardDegrees& shards, double experts) {
  ParameterParts out;
  const auto layer = [&](int number) { out += count(whole_layer_weights(spec, number, shards), experts); };
  for (int l = range.first_layer; l < range.first_layer + range.num_layers; ++l) layer(l);
  if (range.embed) out += count(whole_embedding_weights(spec, shards));
  if (range.head) {
    out += count(whole_head_weights(spec, shards, !spec.tied_embeddings || !range.embed));
    out += count(whole_head_stream_weights(spec));
  }
  if (range.mtp && spec.mtp_depth > 0) {
    for (int block = 0; block < spec.mtp_blocks(); ++block) {
      layer(spec.num_layers + block);
      out += count(whole_mtp_weights(spec, shards));
    }
    // The token table's copy, without positions. A tied head's copy serves both.
    if (!range.embed && !(spec.tied_embeddings && range.head)) out.embedding += table(spec, shards);
  }
  return out;
}

}  // namespace

ParameterParts& ParameterParts::operator+=(const ParameterParts& other) {
  embedding += other.embedding;
  attention += other.attention;
  norms += other.norms;
  router += other.router;
  routed_experts += other.routed_experts;
  shared_experts += other.shared_experts;
  dense += other.dense;
  mtp += other.mtp;
  head += other.head;
  return *this;
}

LayerRange whole_model(const ModelSpec& spec, bool mtp) {
  return {.first_layer = 0, .num_layers = spec.num_layers, .embed = true, .head = true, .mtp = mtp};
}

ParameterParts layer_parameters(const ModelSpec& spec, int layer, const ShardDegrees& shards) {
  return count(whole_layer_weights(spec, layer, shards));
}

ParameterParts parameters_of(const ModelSpec& spec, const LayerRange& range, const ShardDegrees& shards) {
  return count(spec, range, shards, 0);
}

std::int64_t table_parameters(const ModelSpec& spec) {
  return table(spec, {});
}

double mtp_projection_parameters(const ModelSpec& spec, const ShardDegrees& shards) {
  return static_cast<double>(count(whole_mtp_weights(spec, shards)).mtp);
}

ParameterParts active_parameters(const ModelSpec& spec) {
  return count(spec, whole_model(spec, /*mtp=*/false), {}, spec.moe.router.top_k);
}

}  // namespace trireme::model
