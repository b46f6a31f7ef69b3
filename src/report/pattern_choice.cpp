#include "report/pattern_choice.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/text_table.h"

namespace trireme::report {

std::string pattern_text(const plan::Plan& plan, const plan::Prediction& prediction) {
  const auto& ranked = prediction.patterns;
  if (ranked.empty()) return plan.all_to_all;
  const bool kept = ranked.front().pattern != plan.all_to_all;
  const auto priced = [](const plan::PricedPattern& p) { return show_seconds(p.layer_s); };
  std::string out = kept ? fmt::format("{} (kept from the run's start; auto would choose {}, ", plan.all_to_all, ranked.front().pattern)
                         : fmt::format("{} (auto: ", plan.all_to_all);
  out += fmt::format("predicted {} a layer and micro-batch, forward and backward", priced(ranked.front()));
  if (ranked.size() > 1) out += fmt::format("; runner-up {}, {}", ranked[1].pattern, priced(ranked[1]));
  return out + ")";
}

nlohmann::json pattern_json(const plan::Plan& plan, const plan::Prediction& prediction) {
  return {{"pattern", plan.all_to_all}, {"chosen", !prediction.patterns.empty()}, {"candidates", prediction.patterns}};
}

}  // namespace trireme::report
