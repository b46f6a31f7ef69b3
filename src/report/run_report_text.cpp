#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "report/action_kinds.h"
#include "report/exposure_tables.h"
#include "report/pattern_choice.h"
#include "report/run_report.h"
#include "report/run_tables.h"
#include "report/text_table.h"

namespace trireme::report {

std::string run_text(const RunReport& r) {
  std::string out = facts_text(r.facts) + "\n";
  TextTable totals({"", "predicted", "measured", "error"});
  totals.add({"step", show_seconds(r.step_s.predicted), measured_text(r.step_s.measured, show_seconds),
              show_error(r.step_s.predicted, r.step_s.measured)});
  if (r.repriced_step_s > 0)
    totals.add({"with the expert load as it was", show_seconds(r.repriced_step_s), measured_text(r.step_s.measured, show_seconds),
                show_error(r.repriced_step_s, r.step_s.measured)});
  const double rate = median_of(r.metrics.tokens_per_s);
  totals.add({"tokens/s", fmt::format("{:.0f}", r.prediction.tokens_per_s), rate == 0 ? "-" : fmt::format("{:.0f}", rate),
              show_error(r.prediction.tokens_per_s, rate)});
  totals.add({"peak memory of a rank", show_bytes(r.peak_bytes.predicted), measured_text(r.peak_bytes.measured, show_bytes),
              show_error(r.peak_bytes.predicted, r.peak_bytes.measured)});
  if (r.checkpoint_peak_bytes.predicted > 0 && r.checkpoint_peak_bytes.measured > 0)
    totals.add({"  while a checkpoint is written", show_bytes(r.checkpoint_peak_bytes.predicted),
                show_bytes(r.checkpoint_peak_bytes.measured),
                show_error(r.checkpoint_peak_bytes.predicted, r.checkpoint_peak_bytes.measured)});
  out += totals.text();
  if (r.measured.empty()) out += "  nothing was measured: the run has not ended, or it was killed\n";
  else
    out += fmt::format("  measured over {} steps from step {}\n", r.measured.front().num_steps, r.measured.front().first_step);
  out += strips_text(r);

  out += "\nBy action kind, a step, all ranks (waiting for partners included)\n" + kinds_text(r.kinds, true);
  if (!r.phases.empty())
    out += "\nDispatch and combine by phase, a step, all ranks (waiting for partners included)\n" + phases_text(r.phases) +
           fmt::format("  by {}\n", pattern_text(r.plan, r.prediction));
  out += "\nCompute by segment, forward and backward\n" + kinds_text(r.segments, false);

  out += "\nBy rank\n";
  TextTable ranks({"rank", "stage", "compute", "measured", "error", "idle", "measured", "peak", "measured", "error"});
  for (const RankRow& k : r.ranks)
    ranks.add({fmt::format("{}", k.rank), fmt::format("{}", k.stage), show_seconds(k.compute_s.predicted),
               measured_text(k.compute_s.measured, show_seconds), show_error(k.compute_s.predicted, k.compute_s.measured),
               show_seconds(k.idle_s.predicted), measured_text(k.idle_s.measured, show_seconds),
               show_bytes(k.peak_bytes.predicted), measured_text(k.peak_bytes.measured, show_bytes),
               show_error(k.peak_bytes.predicted, k.peak_bytes.measured)});
  out += ranks.text();
  out += exposure_text({r.predicted_exposure, r.measured_exposure});

  if (!r.metrics.loss.empty()) {
    const auto& loss = r.metrics.loss;
    const auto least = std::min_element(loss.begin(), loss.end(), [](auto& a, auto& b) { return a.second < b.second; });
    out += fmt::format("\nLoss: {:.4f} at step {:.0f}, {:.4f} at step {:.0f}, least {:.4f} at step {:.0f}\n", loss.front().second,
                       loss.front().first, loss.back().second, loss.back().first, least->second, least->first);
  }
  if (!r.metrics.valid_loss.empty()) {
    const auto& [step, loss] = r.metrics.valid_loss.back();
    out += fmt::format("Validation loss: {:.4f} at step {:.0f}", loss, step);
    if (r.metrics.bigram_loss > 0) out += fmt::format("; a bigram model of the same text has {:.4f}", r.metrics.bigram_loss);
    out += "\n";
  }
  return out + router_text(r.router);
}

nlohmann::json run_json(const RunReport& r) {
  const auto pair = [](const Pair& p) {
    nlohmann::json j = {{"predicted", p.predicted}, {"measured", nullptr}, {"error", nullptr}};
    if (p.measured != 0) {
      j["measured"] = p.measured;
      j["error"] = p.error();
    }
    return j;
  };
  const auto rows = [&](const std::vector<KindRow>& from) {
    nlohmann::json out = nlohmann::json::array();
    for (const KindRow& k : from)
      out.push_back({{"kind", k.kind}, {"lane", k.lane}, {"count", k.count}, {"seconds", pair(k.seconds)}});
    return out;
  };
  nlohmann::json phases = nlohmann::json::array();
  for (const PhaseRow& p : r.phases)
    phases.push_back({{"kind", p.kind}, {"part", p.part}, {"phase", p.phase}, {"count", p.count}, {"seconds", pair(p.seconds)}});
  nlohmann::json ranks = nlohmann::json::array();
  for (const RankRow& k : r.ranks)
    ranks.push_back({{"rank", k.rank}, {"stage", k.stage}, {"step_s", pair(k.step_s)}, {"compute_s", pair(k.compute_s)},
                     {"idle_s", pair(k.idle_s)}, {"peak_memory_bytes", pair(k.peak_bytes)}});
  const auto sides = [&](nlohmann::json (*fractions)(const std::vector<RankExposure>&)) {
    return nlohmann::json{{"predicted", fractions(r.predicted_exposure)},
                          {"measured", r.measured_exposure.empty() ? nlohmann::json(nullptr) : fractions(r.measured_exposure)}};
  };
  nlohmann::json loss = {{"training", r.metrics.loss}, {"validation", r.metrics.valid_loss}, {"bigram", nullptr}};
  if (r.metrics.bigram_loss > 0) loss["bigram"] = r.metrics.bigram_loss;
  nlohmann::json about = nlohmann::json::object();
  for (const Fact& f : r.facts) about[f.what] = f.value;
  return {{"about", about},
          {"mesh", r.plan.mesh},
          {"schedule", r.plan.schedule.name},
          {"num_micro_batches", r.plan.num_micro_batches},
          {"platform", {{"name", r.prediction.platform}, {"measured", r.prediction.platform_measured}}},
          {"step_s", pair(r.step_s)},
          {"repriced_step_s", r.repriced_step_s > 0 ? pair({r.repriced_step_s, r.step_s.measured}) : nlohmann::json(nullptr)},
          {"tokens_per_s", pair({r.prediction.tokens_per_s, median_of(r.metrics.tokens_per_s)})},
          {"peak_memory_bytes", pair(r.peak_bytes)},
          {"checkpoint_peak_bytes", pair(r.checkpoint_peak_bytes)},
          {"checkpoint_copy_bytes", pair(r.checkpoint_copy_bytes)},
          {"all_to_all", pattern_json(r.plan, r.prediction)},
          {"kinds", rows(r.kinds)},
          {"phases", phases},
          {"segments", rows(r.segments)},
          {"ranks", ranks},
          {"bubble_fraction", sides(bubble_fractions)},
          {"exposed_all_to_all_fraction", sides(exposed_all_to_all_fractions)},
          {"exposure", exposure_json({r.predicted_exposure, r.measured_exposure})},
          {"loss", loss},
          {"router", router_json(r.router)}};
}

}  // namespace trireme::report
