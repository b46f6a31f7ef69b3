#include "model/parameter_parts.h"

#include <algorithm>

namespace trireme::model {
namespace {

using Count = std::int64_t;

Count share(Count whole, Count ranks) {
  return (whole + ranks - 1) / ranks;
}

// One rank's counts. Legend: D hidden, H heads, G key/value heads, h width of a query or key head, v of a value head.
class Counter {
 public:
  Counter(const ModelSpec& spec, const ShardDegrees& shards, Count experts)
      : spec_(spec), a_(spec.attention), shards_(shards), D_(spec.hidden), experts_(experts) {}

  // A norm of the residual stream. RMS: weights; layer norm: weights and biases.
  Count norm() const { return spec_.norm == NormKind::layer ? 2 * D_ : D_; }

  Count table() const { return share(spec_.vocab_size, shards_.tp) * D_; }

  // Of one place where the streams are read and written: a matrix from all of them, its biases and three scales.
  Count streams() const {
    const Count n = spec_.residual_streams, mixes = (2 + n) * n;
    return n == 1 ? 0 : mixes * n * D_ + mixes + 3;
  }
  Count head_streams() const {
    const Count n = spec_.residual_streams;
    return n == 1 ? 0 : n * n * D_ + n + 1;
  }

  Count attention(int layer) const {
    const Count H = share(a_.num_heads, shards_.tp), h = a_.head_dim, v = a_.value_dim();
    return queries(H * h) + (a_.kind == AttentionKind::latent ? latent_keys(H) : keys()) +
           (a_.output_gate ? D_ * H * v : 0) + (a_.sinks ? H : 0) + output(H * v) + compressed_keys(layer);
  }

  Count linear() const {
    const LinearMixerSpec& l = spec_.linear;
    const Count heads = share(l.num_heads, shards_.tp), inner = heads * l.head_dim,
                state = share(l.num_groups, shards_.tp) * l.state_dim;
    const Count mixed = inner + 2 * state;  // what the convolution sees: x, B, C or q, k, v
    if (l.kind == LinearMixerKind::mamba2) {
      // In: gate, x, B, C and a step a head. Then convolution with bias; decay, skip and step bias; norm; out.
      return D_ * (inner + mixed + heads) + mixed * (l.conv_width + 1) + 3 * heads + inner + inner * D_;
    }
    // In: gate, q, k, v, and write strength and decay a head. Then convolution; decay and its bias; norm of a head;
    // out.
    return D_ * (inner + mixed + 2 * heads) + mixed * l.conv_width + 2 * heads + l.head_dim + inner * D_;
  }

  Count feed_forward(Count width, Count ffn, bool bias) const {
    const Count ins = spec_.gated ? 2 : 1;
    return (ins + 1) * width * ffn + (bias ? ins * ffn + width : 0);
  }
  Count dense() const { return feed_forward(D_, share(spec_.dense_ffn, shards_.tp), spec_.mlp_bias); }

  void add_moe(ParameterParts& out) const {
    const MoeSpec& m = spec_.moe;
    const Count width = m.latent_dim > 0 ? m.latent_dim : D_;
    out.router += D_ * m.num_experts + (m.router.bias ? m.num_experts : 0);
    out.routed_experts +=
        share(experts_, shards_.ep) * feed_forward(width, share(m.expert_ffn, shards_.etp), m.expert_bias);
    if (m.shared_ffn > 0)
      out.shared_experts += feed_forward(D_, share(m.shared_ffn, shards_.tp), false) + (m.shared_gate ? D_ : 0);
    if (m.latent_dim > 0) out.shared_experts += 2 * D_ * m.latent_dim;
  }

  ParameterParts layer(int layer) const {
    ParameterParts out;
    const Mixer mixer = spec_.mixer(layer);
    const FeedForward ffn = spec_.feed_forward(layer);
    const Count around = (spec_.sandwich_norms ? 2 : 1) * norm() + streams();
    if (mixer == Mixer::attention) out.attention += attention(layer);
    if (mixer == Mixer::linear) out.attention += linear();
    if (mixer != Mixer::none) out.norms += around;
    if (ffn == FeedForward::dense) out.dense += dense();
    if (ffn == FeedForward::moe) add_moe(out);
    if (ffn != FeedForward::none) out.norms += around;
    return out;
  }

 private:
  Count queries(Count width) const {
    if (a_.q_lora_rank == 0) return D_ * width + bias(width) + query_norm(width);
    return a_.q_lora_rank * (D_ + 1 + width) + bias(width);
  }
  Count bias(Count width) const { return a_.bias ? width : 0; }
  Count query_norm(Count width) const { return !a_.qk_norm ? 0 : a_.qk_norm_joint ? width : a_.head_dim; }

  Count keys() const {
    const Count G = share(a_.num_kv_heads, shards_.tp), k = G * a_.head_dim, v = G * a_.value_dim();
    if (a_.shared_kv) return D_ * k + bias(k) + a_.head_dim;
    return D_ * (k + v) + bias(k + v) + query_norm(k);
  }

  Count latent_keys(Count H) const {
    const Count r = a_.kv_lora_rank;
    return D_ * (r + a_.qk_rope_dim) + r + r * H * (a_.qk_nope_dim + a_.value_dim());
  }

  Count output(Count width) const {
    const Count out_bias = a_.output_bias ? D_ : 0;
    if (a_.o_lora_rank == 0) return width * D_ + out_bias;
    // Each group of heads has a matrix of its own to o_lora_rank; then all groups together to hidden.
    return width * a_.o_lora_rank + share(a_.o_groups, shards_.tp) * a_.o_lora_rank * D_ + out_bias;
  }

  // Keys and the weights that compress them, a position table and a norm. Layers with an index overlap their windows,
  // so they have both twice.
  Count compressor(Count ratio, Count width, bool overlap) const {
    const Count wide = (overlap ? 2 : 1) * width;
    return 2 * D_ * wide + ratio * wide + width;
  }
  Count compressed_keys(int layer) const {
    const Count ratio = spec_.compression(layer);
    if (ratio == 0) return 0;
    const bool index = ratio == a_.index_compression;
    Count out = compressor(ratio, a_.head_dim, index);
    if (index)
      out += Count{a_.q_lora_rank > 0 ? a_.q_lora_rank : D_} * a_.index_heads * a_.index_head_dim +
             D_ * a_.index_heads + compressor(ratio, a_.index_head_dim, true);
    return out;
  }

  const ModelSpec& spec_;
  const AttentionSpec& a_;
  const ShardDegrees& shards_;
  Count D_, experts_;
};

ParameterParts count(const ModelSpec& spec, const LayerRange& range, const ShardDegrees& shards, Count experts) {
  const Counter counter(spec, shards, experts);
  ParameterParts out;
  for (int layer = range.first_layer; layer < range.first_layer + range.num_layers; ++layer)
    out += counter.layer(layer);
  if (range.embed) out.embedding += counter.table() + Count{spec.learned_positions} * spec.hidden;
  if (range.head) {
    out.norms += counter.norm() + counter.head_streams();
    if (!spec.tied_embeddings || !range.embed) out.head += counter.table();
  }
  if (range.mtp && spec.mtp_depth > 0) {
    for (int block = 0; block < spec.mtp_blocks(); ++block) {
      out += counter.layer(spec.num_layers + block);
      out.norms += 3 * counter.norm();
      out.mtp += 2 * Count{spec.hidden} * share(spec.hidden, shards.tp);
    }
    // A tied head's copy serves both.
    if (!range.embed && !(spec.tied_embeddings && range.head)) out.embedding += counter.table();
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
  return Counter(spec, shards, spec.moe.num_experts).layer(layer);
}

ParameterParts parameters_of(const ModelSpec& spec, const LayerRange& range, const ShardDegrees& shards) {
  return count(spec, range, shards, spec.moe.num_experts);
}

ParameterParts active_parameters(const ModelSpec& spec) {
  return count(spec, whole_model(spec, /*mtp=*/false), {}, spec.moe.router.top_k);
}

}  // namespace trireme::model
