#include "model/flops.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "model/description/whole_weights.h"

namespace trireme::model {
namespace {

// Keys among `visible` that fall into the last `window` of each query's past.
double windowed(double visible, double window, AttentionSquare square) {
  window = std::min(window, visible);
  return square == AttentionSquare::full ? window : window - window * window / (2 * visible);
}

double all_keys(double visible, AttentionSquare square) {
  return square == AttentionSquare::full ? visible : visible / 2;
}

double attention_scores(const ModelSpec& spec, int layer, double s, const FlopConvention& convention) {
  const AttentionSpec& a = spec.attention;
  const double keys = keys_per_query(spec, layer, static_cast<std::int64_t>(s), convention);
  double out = 2.0 * a.num_heads * (a.head_dim + a.value_dim()) * keys;
  const int ratio = spec.compression(layer);
  if (ratio > 0 && ratio == a.index_compression)
    out += 2.0 * a.index_heads * a.index_head_dim * all_keys(s / ratio, convention.square);
  return out;
}

// The scan a token: Mamba-2 by Megatron-LM's count of 7 a state entry; the gated delta rule reads, decays, corrects and
// writes its state, 8 an entry.
double linear_scan(const ModelSpec& spec) {
  const LinearMixerSpec& l = spec.linear;
  const double entries = double{1} * l.num_heads * l.head_dim * l.state_dim;
  const double mixed = double{1} * l.num_heads * l.head_dim + 2.0 * l.num_groups * l.state_dim;
  return (l.kind == LinearMixerKind::mamba2 ? 7 : 8) * entries + 2 * mixed * l.conv_width;
}

// Forward, of one token: routed experts see top_k rows of it.
FlopsPerToken matmul_flops(const ModelSpec& spec, const WeightList& weights) {
  FlopsPerToken f;
  for (const Weight& w : weights) {
    if (!w.multiplies) continue;
    const double flops = 2 * w.rows * w.columns;
    switch (w.role) {
      case WeightRole::attention:
        f.projections += flops;
        break;
      case WeightRole::router:
        f.router += flops;
        break;
      case WeightRole::routed_experts:
        f.routed_experts += spec.moe.router.top_k * flops;
        break;
      case WeightRole::shared_experts:
        f.shared_experts += flops;
        break;
      case WeightRole::dense:
        f.dense += flops;
        break;
      case WeightRole::mtp:
        f.mtp += flops;
        break;
      case WeightRole::head:
        f.head += flops;
        break;
      case WeightRole::embedding:
      case WeightRole::norms:
        break;
    }
  }
  return f;
}

FlopsPerToken scaled(FlopsPerToken f, double by) {
  for (double* part :
       {&f.projections, &f.scores, &f.router, &f.routed_experts, &f.shared_experts, &f.dense, &f.mtp, &f.head})
    *part *= by;
  return f;
}

}  // namespace

FlopsPerToken& FlopsPerToken::operator+=(const FlopsPerToken& other) {
  projections += other.projections;
  scores += other.scores;
  router += other.router;
  routed_experts += other.routed_experts;
  shared_experts += other.shared_experts;
  dense += other.dense;
  mtp += other.mtp;
  head += other.head;
  return *this;
}

double keys_per_query(const ModelSpec& spec, int layer, std::int64_t sequence_length,
                      const FlopConvention& convention) {
  const AttentionSpec& a = spec.attention;
  const double s = static_cast<double>(sequence_length);
  const int window = convention.windows ? spec.window(layer) : 0;
  if (window == 0) return all_keys(s, convention.square);
  const double recent =
      a.chunked ? all_keys(std::min<double>(window, s), convention.square) : windowed(s, window, convention.square);
  const int ratio = spec.compression(layer);
  if (ratio == 0) return recent;
  const double compressed = s / ratio;
  const bool chosen = ratio == a.index_compression && a.index_top_k > 0;
  return recent + windowed(compressed, chosen ? a.index_top_k : compressed, convention.square);
}

double score_flops(const ModelSpec& spec, int layer, std::int64_t sequence_length, const FlopConvention& convention) {
  const Mixer mixer = spec.mixer(layer);
  return mixer == Mixer::attention ? attention_scores(spec, layer, static_cast<double>(sequence_length), convention)
         : mixer == Mixer::linear  ? linear_scan(spec)
                                   : 0;
}

FlopsPerToken layer_flops(const ModelSpec& spec, int layer, std::int64_t sequence_length,
                          const FlopConvention& convention) {
  FlopsPerToken f = matmul_flops(spec, whole_layer_weights(spec, layer));
  f.scores = score_flops(spec, layer, sequence_length, convention);
  if (!convention.router) f.router = 0;
  return f;
}

double projection_elements(const ModelSpec& spec, int layer) {
  return matmul_flops(spec, whole_layer_weights(spec, layer)).projections / 2;
}

FlopsPerToken flops_of(const ModelSpec& spec, const LayerRange& range, std::int64_t sequence_length,
                       const FlopConvention& convention) {
  FlopsPerToken f;
  const FlopsPerToken head = convention.head ? matmul_flops(spec, whole_head_weights(spec)) : FlopsPerToken{};
  for (int layer = range.first_layer; layer < range.first_layer + range.num_layers; ++layer)
    f += layer_flops(spec, layer, sequence_length, convention);
  if (range.head) f += head;
  if (range.mtp && convention.mtp)
    for (int depth = 0; depth < spec.mtp_depth; ++depth) {
      f += layer_flops(spec, spec.num_layers, sequence_length, convention);
      f += matmul_flops(spec, whole_mtp_weights(spec));
      f += head;
    }
  return scaled(f, convention.passes);
}

FlopsPerToken flops_per_token(const ModelSpec& spec, std::int64_t sequence_length, const FlopConvention& convention) {
  return flops_of(spec, whole_model(spec, /*mtp=*/true), sequence_length, convention);
}

std::int64_t active_matmul_parameters(const ModelSpec& spec) {
  FlopsPerToken f = flops_per_token(spec, 1, {.mtp = false, .passes = 1});
  f.scores = 0;
  return static_cast<std::int64_t>(f.total() / 2);  // exact: below 2^53
}

std::string to_text(const FlopConvention& convention, const ModelSpec& spec) {
  std::string out = convention.passes == 1   ? "forward"
                    : convention.passes == 3 ? "forward and backward"
                    : convention.passes == 4 ? "forward, backward and a recomputed forward"
                                             : fmt::format("{} times the forward", convention.passes);
  out +=
      convention.square == AttentionSquare::causal ? ", causal attention (half the square)" : ", full attention square";
  if (spec.attention.window > 0) out += convention.windows ? ", windows counted" : ", windows counted as full";
  std::vector<const char*> with, without;
  (convention.head ? with : without).push_back("head");
  if (spec.moe.num_experts > 0) (convention.router ? with : without).push_back("router");
  if (spec.mtp_depth > 0) (convention.mtp ? with : without).push_back("MTP");
  const auto list = [&](const char* word, const std::vector<const char*>& names) {
    for (std::size_t i = 0; i < names.size(); ++i)
      out += fmt::format("{}{}",
                         i == 0                  ? fmt::format(", {} ", word)
                         : i + 1 == names.size() ? " and "
                                                 : ", ",
                         names[i]);
  };
  list("with", with);
  list("without", without);
  return out;
}

std::string gflop_per_token_text(const ModelSpec& spec, std::int64_t sequence_length,
                                 const FlopConvention& convention) {
  const double giga = flops_per_token(spec, sequence_length, convention).total() / 1e9;
  const std::string shown = giga < 0.1 ? fmt::format("{:.2g}", giga) : fmt::format("{:.1f}", giga);
  return fmt::format("{} GFLOP/token (s {}; {})", shown, sequence_length, to_text(convention, spec));
}

}  // namespace trireme::model
