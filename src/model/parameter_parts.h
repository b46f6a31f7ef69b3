// How many parameters a model, a run of its layers or one rank's shard of them has, by part: read off the weights of the
// description. A test holds them against the names that parameters() lists one by one.
#pragma once
#include <cstdint>

#include "model/layer_range.h"
#include "model/model_spec.h"

namespace trireme::model {

struct ParameterParts {
  std::int64_t embedding = 0;  // token table and learned positions
  std::int64_t attention = 0;  // mixers of any kind, with the norms and biases inside them
  std::int64_t norms = 0;      // of the residual stream; with residual_streams > 1 also what mixes the streams
  std::int64_t router = 0;
  std::int64_t routed_experts = 0;  // the only part that expert parallelism cuts
  std::int64_t shared_experts = 0;  // with their gate, and the projections to and from MoeSpec::latent_dim
  std::int64_t dense = 0;
  std::int64_t mtp = 0;   // projections of the MTP blocks; their layers and norms count above
  std::int64_t head = 0;  // 0 where it is the embedding's table

  std::int64_t total() const {
    return embedding + attention + norms + router + routed_experts + shared_experts + dense + mtp + head;
  }
  ParameterParts& operator+=(const ParameterParts& other);
  bool operator==(const ParameterParts&) const = default;
};

LayerRange whole_model(const ModelSpec& spec, bool mtp);

// Cuts one rank sees. Tensor parallelism as Megatron-LM's: matrices by heads, feed-forward columns or vocabulary rows;
// norms, routers, low-rank down-projections and a linear mixer's shared parts whole on every rank; at least one
// key/value head a rank. Experts: num_experts / ep of them, each cut by etp. Where a size doesn't divide, the largest
// share counts.
struct ShardDegrees {
  int tp = 1, ep = 1, etp = 1;
};

// `layer` may be an MTP block's (num_layers and up): without its projection and own norms, which parameters_of() adds.
ParameterParts layer_parameters(const ModelSpec& spec, int layer, const ShardDegrees& shards = {});

// With tied embeddings a range with the head but not the embedding holds a copy of the table, in `head`; one with MTP
// blocks but without the embedding holds a copy of the table, too, in `embedding`.
ParameterParts parameters_of(const ModelSpec& spec, const LayerRange& range, const ShardDegrees& shards = {});

// Of the token table: what a tied pair of embedding and head shares.
std::int64_t table_parameters(const ModelSpec& spec);
// Of the projection that an MTP block has beside its layer and norms.
double mtp_projection_parameters(const ModelSpec& spec, const ShardDegrees& shards = {});

// What one token uses: top_k of the routed experts. total() is the count "with both embeddings"; see also
// ParameterCounts. The MTP blocks don't count.
ParameterParts active_parameters(const ModelSpec& spec);

}  // namespace trireme::model
