#include "sim/network/choose.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/errors.h"
#include "plan/all_to_all/generators.h"
#include "sim/network/pattern_time.h"

namespace trireme::sim {
namespace {

template <class Price>
Choice rank(const std::vector<std::string>& patterns, Price&& price) {
  TRIREME_CHECK(!patterns.empty());
  Choice choice;
  for (const std::string& name : patterns) choice.ranked.push_back({name, price(name)});
  std::stable_sort(choice.ranked.begin(), choice.ranked.end(),
                   [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
  return choice;
}

std::string short_time(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} s", seconds);
}

}  // namespace

Choice choose_pattern(const std::vector<std::string>& patterns, const plan::NodeShape& shape, const Fabric& fabric,
                      const plan::UniformRouting& routing, double row_bytes) {
  return rank(patterns,
              [&](const std::string& name) { return balanced_time(name, shape, fabric, routing, row_bytes).seconds; });
}

Choice choose_pattern(const std::vector<std::string>& patterns, const plan::NodeShape& shape, const Fabric& fabric,
                      const plan::RowCounts& counts, double row_bytes) {
  return rank(patterns, [&](const std::string& name) {
    return pattern_time(plan::make_pattern(name, shape), shape, fabric, counts, row_bytes).seconds;
  });
}

std::string to_text(const Choice& choice) {
  std::string text = fmt::format("{} (predicted {}", choice.pick().pattern, short_time(choice.pick().seconds));
  if (const Candidate* second = choice.runner_up())
    text += fmt::format("; runner-up {}, {}", second->pattern, short_time(second->seconds));
  return text + ")";
}

}  // namespace trireme::sim
