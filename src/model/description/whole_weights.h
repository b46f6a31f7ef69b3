// The weights of a model's layers and ends, whatever the kernels: without padding, whole or as a rank's shard has them.
#pragma once
#include "model/description/weight.h"
#include "model/parameter_parts.h"

namespace trireme::model {

WeightList whole_layer_weights(const ModelSpec& spec, int layer, const ShardDegrees& shards = {});
WeightList whole_embedding_weights(const ModelSpec& spec, const ShardDegrees& shards = {});
WeightList whole_head_weights(const ModelSpec& spec, const ShardDegrees& shards = {}, bool own_matrix = true);
WeightList whole_head_stream_weights(const ModelSpec& spec);
WeightList whole_mtp_weights(const ModelSpec& spec, const ShardDegrees& shards = {});

}  // namespace trireme::model
