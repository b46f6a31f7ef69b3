#include "sim/network/choose.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "base/errors.h"
#include "plan/all_to_all/generators.h"
#include "sim/network/pattern_time.h"

namespace trireme::sim {
namespace {

// Between the race's sizes: a line in the logarithms.
std::optional<double> raced_time(const platform::PlatformSpec& platform, const std::string& pattern,
                                 const plan::NodeShape& shape, int top_k, double bytes_per_pair) {
  for (const platform::PatternRace& r : platform.races) {
    if (r.pattern != pattern || r.nodes != shape.num_nodes() || r.nodes * r.ranks_per_node != shape.size() ||
        !shape.is_even() || r.top_k != top_k)
      continue;
    // Whole rows seldom make a size exactly.
    if (bytes_per_pair < r.bytes.front() * 0.95 || bytes_per_pair > r.bytes.back() * 1.05) continue;
    const double bytes = std::clamp(bytes_per_pair, r.bytes.front(), r.bytes.back());
    std::size_t above = 0;
    while (above + 1 < r.bytes.size() && r.bytes[above] < bytes) ++above;
    if (above == 0) return r.seconds.front();
    const double low = std::log(r.bytes[above - 1]), high = std::log(r.bytes[above]);
    const double part = (std::log(bytes) - low) / (high - low);
    return std::exp((1 - part) * std::log(r.seconds[above - 1]) + part * std::log(r.seconds[above]));
  }
  return std::nullopt;
}

std::string short_time(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} s", seconds);
}

}  // namespace

Choice rank_patterns(const std::vector<std::string>& patterns,
                     const std::function<double(const std::string&)>& seconds) {
  TRIREME_CHECK(!patterns.empty());
  Choice choice;
  for (const std::string& name : patterns) choice.ranked.push_back({name, seconds(name)});
  std::stable_sort(choice.ranked.begin(), choice.ranked.end(),
                   [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
  return choice;
}

Choice choose_pattern(const std::vector<std::string>& patterns, const plan::NodeShape& shape, const Fabric& fabric,
                      const plan::UniformRouting& routing, double row_bytes) {
  return rank_patterns(patterns, [&](const std::string& name) {
    return balanced_time(name, shape, fabric, routing, row_bytes).seconds;
  });
}

Choice choose_pattern(const std::vector<std::string>& patterns, const plan::NodeShape& shape,
                      const platform::PlatformSpec& platform, const plan::UniformRouting& routing, double row_bytes) {
  const double bytes_per_pair = routing.each({.first = 0}, {.first = 0}) * row_bytes;
  std::map<std::string, double> raced;
  for (const std::string& name : patterns)
    if (const auto seconds = raced_time(platform, name, shape, routing.top_k(), bytes_per_pair)) raced[name] = *seconds;
  if (raced.size() < patterns.size())
    return choose_pattern(patterns, shape, fabric_of(platform, shape), routing, row_bytes);
  Choice choice = rank_patterns(patterns, [&](const std::string& name) { return raced.at(name); });
  choice.raced = true;
  return choice;
}

Choice choose_pattern(const std::vector<std::string>& patterns, const plan::NodeShape& shape, const Fabric& fabric,
                      const plan::RowCounts& counts, double row_bytes) {
  return rank_patterns(patterns, [&](const std::string& name) {
    return pattern_time(plan::make_pattern(name, shape), shape, fabric, counts, row_bytes).seconds;
  });
}

std::string to_text(const Choice& choice) {
  std::string text = fmt::format("{} ({} {}", choice.pick().pattern, choice.raced ? "raced" : "predicted",
                                 short_time(choice.pick().seconds));
  if (const Candidate* second = choice.runner_up())
    text += fmt::format("; runner-up {}, {}", second->pattern, short_time(second->seconds));
  return text + ")";
}

}  // namespace trireme::sim
