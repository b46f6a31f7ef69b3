#include "model/parameters.h"

#include <functional>
#include <numeric>

#include "base/errors.h"

namespace trireme::model {
namespace {

// Appends parameters of one layer or end, which share a prefix and a layer number.
struct Lister {
  std::vector<ParameterSpec>& out;
  int layer = -1;

  void add(std::string name, std::vector<std::int64_t> shape, Segment segment, int expert = -1,
           Init init = Init::normal) {
    ParameterSpec p{.name = std::move(name),
                    .shape = std::move(shape),
                    .layer = layer,
                    .segment = segment,
                    .expert = expert,
                    .init = init};
    p.weight_decay = p.shape.size() > 1;  // matrices yes; norms and biases no
    out.push_back(std::move(p));
  }
  void norm(const std::string& name, std::int64_t width, Segment segment) {
    add(name + ".weight", {width}, segment, -1, Init::ones);
  }
  void gated(const std::string& prefix, std::int64_t hidden, std::int64_t ffn, Segment segment, int expert = -1) {
    add(prefix + ".gate.weight", {ffn, hidden}, segment, expert);
    add(prefix + ".up.weight", {ffn, hidden}, segment, expert);
    add(prefix + ".down.weight", {hidden, ffn}, segment, expert);
  }
};

void add_layer(const ModelSpec& spec, int layer, std::vector<ParameterSpec>& out) {
  Lister list{out, layer};
  const AttentionSpec& a = spec.attention;
  const std::int64_t hidden = spec.hidden, q = std::int64_t{a.num_heads} * a.head_dim,
                     kv = std::int64_t{a.num_kv_heads} * a.head_dim;
  const std::string prefix = fmt::format("layers.{}.", layer), attention = prefix + "attention.";

  list.norm(prefix + "attention_norm", hidden, Segment::attention);
  const auto project = [&](const char* name, std::int64_t rows, std::int64_t columns, bool bias) {
    list.add(attention + name + ".weight", {rows, columns}, Segment::attention);
    if (bias) list.add(attention + name + ".bias", {rows}, Segment::attention, -1, Init::zeros);
  };
  project("q", q, hidden, a.bias);
  project("k", kv, hidden, a.bias);
  project("v", kv, hidden, a.bias);
  project("o", hidden, q, a.output_bias);
  if (a.qk_norm) {
    list.norm(attention + "q_norm", a.head_dim, Segment::attention);
    list.norm(attention + "k_norm", a.head_dim, Segment::attention);
  }

  // The second norm feeds the router, so it lies in `attention` in an MoE layer and in `mlp` in a dense one.
  if (!spec.is_moe(layer)) {
    list.norm(prefix + "ffn_norm", hidden, Segment::mlp);
    list.gated(prefix + "mlp", hidden, spec.dense_ffn, Segment::mlp);
    return;
  }
  list.norm(prefix + "ffn_norm", hidden, Segment::attention);
  list.add(prefix + "router.weight", {spec.moe.num_experts, hidden}, Segment::attention);
  for (int e = 0; e < spec.moe.num_experts; ++e)
    list.gated(fmt::format("{}experts.{}", prefix, e), hidden, spec.moe.expert_ffn, Segment::experts, e);
  if (spec.moe.shared_ffn > 0) list.gated(prefix + "shared", hidden, spec.moe.shared_ffn, Segment::experts);
}

}  // namespace

std::int64_t ParameterSpec::count() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<ParameterSpec> parameters(const ModelSpec& spec) {
  std::vector<ParameterSpec> out;
  Lister ends{out};
  ends.add("embed.weight", {spec.vocab_size, spec.hidden}, Segment::embed);
  for (int layer = 0; layer < spec.num_layers; ++layer) add_layer(spec, layer, out);
  ends.norm("final_norm", spec.hidden, Segment::head);
  if (!spec.tied_embeddings) ends.add("head.weight", {spec.vocab_size, spec.hidden}, Segment::head);
  return out;
}

ParameterCounts count_parameters(const ModelSpec& spec) {
  ParameterCounts counts;
  const std::int64_t experts = spec.moe.num_experts, top_k = spec.moe.router.top_k;
  std::int64_t routed_matmul = 0;
  for (const ParameterSpec& p : parameters(spec)) {
    const std::int64_t n = p.count();
    counts.total += n;
    const bool matmul = p.shape.size() > 1 && p.segment != Segment::embed;
    if (p.expert >= 0) {
      counts.routed_experts += n;
      routed_matmul += n;
    } else {
      counts.active += n;
      if (matmul) counts.active_matmul += n;
    }
  }
  if (experts > 0) {
    // Experts are all of one size, so the division is exact.
    counts.active += routed_matmul / experts * top_k;
    counts.active_matmul += routed_matmul / experts * top_k;
  }
  if (spec.tied_embeddings) counts.active_matmul += spec.vocab_size * spec.hidden;  // the table multiplies in the head
  return counts;
}

double training_flops_per_token(const ModelSpec& spec, std::int64_t sequence_length) {
  const double matmul = 6.0 * static_cast<double>(count_parameters(spec).active_matmul);
  const double attention = 12.0 * static_cast<double>(sequence_length) * spec.attention.num_heads *
                           spec.attention.head_dim / 2.0 * spec.num_layers;
  return matmul + attention;
}

}  // namespace trireme::model
