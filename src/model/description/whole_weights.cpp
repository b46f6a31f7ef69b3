#include "model/description/whole_weights.h"

#include "model/description/describe.h"

namespace trireme::model {

namespace {

template <class Read>
WeightList read(const ModelSpec& spec, const ShardDegrees& shards, const Read& weights) {
  static const Kernels plain{};
  static const Precision precision{};
  static const Execution execution{};
  const Share share{.tp = shards.tp, .ep = shards.ep, .etp = shards.etp};
  return weights(Subject{spec, share, precision, execution, plain});
}

}  // namespace

WeightList whole_layer_weights(const ModelSpec& spec, int layer, const ShardDegrees& shards) {
  return read(spec, shards, [&](const Subject& s) { return layer_weights(s, layer); });
}
WeightList whole_embedding_weights(const ModelSpec& spec, const ShardDegrees& shards) {
  return read(spec, shards, [](const Subject& s) { return embedding_weights(s); });
}
WeightList whole_head_weights(const ModelSpec& spec, const ShardDegrees& shards, bool own_matrix) {
  return read(spec, shards, [&](const Subject& s) { return head_weights(s, own_matrix); });
}
WeightList whole_head_stream_weights(const ModelSpec& spec) {
  return read(spec, {}, [](const Subject& s) { return head_stream_weights(s); });
}
WeightList whole_mtp_weights(const ModelSpec& spec, const ShardDegrees& shards) {
  return read(spec, shards, [](const Subject& s) { return mtp_weights(s); });
}

}  // namespace trireme::model
