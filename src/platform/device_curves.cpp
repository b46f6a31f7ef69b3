#include "platform/device_curves.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <type_traits>

#include <fmt/format.h>

#include "base/errors.h"

namespace trireme::platform {

namespace {

double thread_distance(int a, int b) { return std::abs(std::log(std::max(a, 1)) - std::log(std::max(b, 1))); }

}  // namespace

template <class Curve>
const Curve* DeviceCurves::pick(const std::vector<Curve>& curves, DType dtype, int threads, const char* what,
                                double& scale) {
  const Curve* best = nullptr;
  double best_distance = 0;
  for (const Curve& c : curves) {
    double distance = thread_distance(c.threads, threads);
    if constexpr (requires { c.dtype; })
      if (c.dtype != dtype) distance += 1000 + std::abs(size_of(c.dtype) - size_of(dtype));
    if (!best || distance < best_distance) {
      best = &c;
      best_distance = distance;
    }
  }
  scale = 1;
  if (!best) return nullptr;
  measured_ = measured_ && best->source == Source::measured;
  if (best->threads > 0 && threads > 0 && best->threads != threads) {
    scale *= static_cast<double>(threads) / best->threads;
    notes_.push_back(fmt::format("{}: no curve for {} threads, that for {} scaled", what, threads, best->threads));
  }
  if constexpr (requires { best->dtype; })
    if (best->dtype != dtype) {
      scale *= static_cast<double>(size_of(best->dtype)) / size_of(dtype);
      notes_.push_back(fmt::format("{}: no curve for {}, that for {} scaled", what, name_of(dtype), name_of(best->dtype)));
    }
  return best;
}

DeviceCurves::DeviceCurves(const Device& d, DType dtype, int threads) : launch_(d.launch_s) {
  if (d.peaks.empty()) throw ConfigError({.key = "device.peak", .allowed = "is missing: at least one table is needed"});
  const Peak* peak = &d.peaks.front();
  for (const Peak& p : d.peaks)
    if (p.dtype == dtype) peak = &p;
  peak_ = FlopsPerSecond(peak->flops_per_s * size_of(peak->dtype) / size_of(dtype));
  if (peak->dtype != dtype) notes_.push_back(fmt::format("peak: none for {}, that for {} scaled", name_of(dtype), name_of(peak->dtype)));
  measured_ = d.launch_source == Source::measured;

  double scale = 1;
  if (const auto* c = pick(d.gemm, dtype, threads, "gemm", scale))
    gemm_ = {LogSurface({c->m, c->n, c->k}, c->flops_per_s), scale};
  if (const auto* c = pick(d.grouped_gemm, dtype, threads, "grouped gemm", scale))
    grouped_gemm_ = {LogSurface({c->rows, c->n, c->k, c->groups}, c->flops_per_s), scale};
  else
    notes_.push_back("grouped gemm: no curve, gemm's used with the rows of one group");
  if (const auto* c = pick(d.attention, dtype, threads, "attention", scale)) {
    attention_forward_ = {LogSurface({c->sequence, c->heads, c->head_dim}, c->forward_flops_per_s), scale};
    attention_backward_ = {LogSurface({c->sequence, c->heads, c->head_dim}, c->backward_flops_per_s), scale};
  } else {
    notes_.push_back("attention: no curve, gemm's used for a head's square");
  }
  // A factor is a ratio: it is not scaled, and where it is missing for a dtype nothing is said.
  const SegmentTable* nearest = nullptr;
  for (const SegmentTable& t : d.segments)
    if (t.dtype == dtype &&
        (!nearest || thread_distance(t.threads, threads) <= thread_distance(nearest->threads, threads)))
      nearest = &t;
  if (nearest) take_segments(*nearest, threads);
  for (const MemoryUse use : {MemoryUse::copy, MemoryUse::elementwise, MemoryUse::optimizer}) {
    std::vector<MemoryCurve> of_use;
    for (const MemoryCurve& c : d.memory)
      if (c.use == use) of_use.push_back(c);
    if (of_use.empty()) of_use = d.memory;
    if (const auto* c = pick(of_use, dtype, threads, "memory", scale))
      // Bandwidth is shared by the cores: more threads than measured do not make more of it.
      memory_[static_cast<int>(use)] = {LogSurface({c->bytes}, c->bytes_per_s), std::min(scale, 1.0)};
  }
}

void DeviceCurves::take_segments(const SegmentTable& table, int threads) {
  if (table.threads > 0 && threads > 0 && table.threads != threads)
    notes_.push_back(fmt::format("segments: none measured with {} threads, factors of {} used", threads, table.threads));
  struct Points {
    std::vector<std::vector<double>> at{{}, {}};  // tokens, experts
    std::vector<double> factor;
  };
  std::map<std::array<std::string, 3>, Points> points;
  for (std::size_t i = 0; i < table.factor.size(); ++i) {
    Points& p = points[{table.segment[i], table.layer[i], table.pass[i]}];
    p.at[0].push_back(table.tokens.empty() ? 1 : table.tokens[i]);
    p.at[1].push_back(table.experts.empty() ? 1 : table.experts[i]);
    p.factor.push_back(table.factor[i]);
  }
  for (const auto& [name, p] : points) segments_[name] = LogSurface(p.at, p.factor);
  // Of one size the mean of all shapes that were measured.
  std::map<double, std::pair<double, int>> by_tokens;
  for (std::size_t i = 0; i < table.load_cv.size() && i < table.tokens.size(); ++i)
    if (table.load_cv[i] > 0) by_tokens[table.tokens[i]].first += table.load_cv[i], ++by_tokens[table.tokens[i]].second;
  if (by_tokens.empty()) return;
  std::vector<double> tokens, cv;
  for (const auto& [at, of] : by_tokens) tokens.push_back(at), cv.push_back(of.first / of.second);
  load_cv_ = LogSurface({tokens}, cv);
}

FlopsPerSecond DeviceCurves::gemm(double m, double n, double k) const {
  return FlopsPerSecond(gemm_.scale * gemm_.surface.at({m, n, k}));
}

FlopsPerSecond DeviceCurves::grouped_gemm(double rows, double n, double k, double groups) const {
  if (grouped_gemm_.surface.empty()) return gemm(rows, n, k);
  return FlopsPerSecond(grouped_gemm_.scale * grouped_gemm_.surface.at({rows, n, k, groups}));
}

FlopsPerSecond DeviceCurves::attention(double sequence, double heads, double head_dim, bool backward) const {
  const Scaled& s = backward ? attention_backward_ : attention_forward_;
  if (s.surface.empty()) return gemm(sequence, sequence, head_dim);
  return FlopsPerSecond(s.scale * s.surface.at({sequence, heads, head_dim}));
}

double DeviceCurves::segment_factor(const std::string& segment, const std::string& layer, const std::string& pass, double tokens,
                                    double experts) const {
  if (const auto at = segments_.find({segment, layer, pass}); at != segments_.end())
    return at->second.at({std::max(tokens, 1.0), std::max(experts, 1.0)});
  // Where a platform file or a model knows no shared expert by itself, `experts` computes alike (or it was a part of them).
  return segment == "shared" ? segment_factor("experts", layer, pass, tokens, experts) : 1;
}

double DeviceCurves::load_cv(double tokens) const {
  return load_cv_.empty() ? 0 : load_cv_.at({std::max(tokens, 1.0)});
}

BytesPerSecond DeviceCurves::memory(MemoryUse use, double bytes) const {
  const Scaled& s = memory_[static_cast<int>(use)];
  return BytesPerSecond(s.scale * s.surface.at({bytes}));
}

}  // namespace trireme::platform
