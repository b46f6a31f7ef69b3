#include "report/rehearsal_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/exposure_tables.h"
#include "report/pattern_choice.h"
#include "report/run_tables.h"
#include "report/text_table.h"

namespace trireme::report {

namespace {

constexpr std::size_t most_ranks = 16;  // shown in the text

nlohmann::json pair_json(const Pair& p) {
  return {{"predicted", p.predicted}, {rehearsed, p.measured}, {"error", p.measured == 0 ? nlohmann::json(nullptr) : nlohmann::json(p.error())}};
}

nlohmann::json fractions_of(const std::vector<RankExposure>& predicted, const std::vector<RankExposure>& measured) {
  return {{"bubble_fraction", bubble_fractions(measured)},
          {"exposed_all_to_all_fraction", exposed_all_to_all_fractions(measured)},
          {"predicted_bubble_fraction", bubble_fractions(predicted)},
          {"predicted_exposed_all_to_all_fraction", exposed_all_to_all_fractions(predicted)}};
}

}  // namespace

const char* const emulated_note =
    "emulated: every segment was replaced by a wait for its predicted time; the messages were real, of real sizes, with zeros in them";

std::string rehearsal_text(const RehearsalView& view) {
  const RunReport& r = view.report;
  std::string out = fmt::format("{}\nRehearsal, {}\n\n", facts_text(r.facts), emulated_note);
  TextTable totals({"", "predicted", rehearsed, "error"});
  totals.add({"step, emulated", show_seconds(r.step_s.predicted), measured_text(r.step_s.measured, show_seconds),
              show_error(r.step_s.predicted, r.step_s.measured)});
  totals.add({"training step, by the plan", show_seconds(view.plan_step_s), "-", "-"});
  out += totals.text();
  if (!r.measured.empty())
    out += fmt::format("  rehearsed over {} steps; each rank held {} of messages at most\n", r.measured.front().num_steps, show_bytes(view.buffer_bytes));
  if (!view.load.empty()) out += fmt::format("  rows by expert: {}\n", view.load);
  out += strips_text(r, rehearsed);
  out += "\nBy action kind, an emulated step, all ranks (waiting for partners included)\n" + kinds_text(r.kinds, true, rehearsed);
  if (!r.phases.empty())
    out += "\nDispatch and combine by phase, an emulated step, all ranks (waiting for partners included)\n" + phases_text(r.phases, rehearsed) +
           fmt::format("  by {}\n", pattern_text(r.plan, r.prediction));
  out += "\nBy rank, an emulated step\n";
  TextTable ranks({"rank", "stage", "step", rehearsed, "error", "idle", rehearsed});
  for (std::size_t i = 0; i < r.ranks.size() && i < most_ranks; ++i) {
    const RankRow& k = r.ranks[i];
    ranks.add({fmt::format("{}", k.rank), fmt::format("{}", k.stage), show_seconds(k.step_s.predicted), measured_text(k.step_s.measured, show_seconds),
               show_error(k.step_s.predicted, k.step_s.measured), show_seconds(k.idle_s.predicted), measured_text(k.idle_s.measured, show_seconds)});
  }
  out += ranks.text();
  if (r.ranks.size() > most_ranks) out += fmt::format("  and {} more ranks\n", r.ranks.size() - most_ranks);
  return out + exposure_text({r.predicted_exposure, r.measured_exposure}, rehearsed);
}

nlohmann::json rehearsal_json(const RehearsalView& view) {
  const RunReport& r = view.report;
  nlohmann::json j = fractions_of(r.predicted_exposure, r.measured_exposure);
  nlohmann::json kinds = nlohmann::json::array(), phases = nlohmann::json::array(), ranks = nlohmann::json::array(),
                 about = nlohmann::json::object();
  for (const KindRow& k : r.kinds)
    kinds.push_back({{"kind", k.kind}, {"lane", k.lane}, {"count", k.count}, {"seconds", pair_json(k.seconds)}});
  for (const PhaseRow& p : r.phases)
    phases.push_back({{"kind", p.kind}, {"part", p.part}, {"phase", p.phase}, {"count", p.count}, {"seconds", pair_json(p.seconds)}});
  for (std::size_t i = 0; i < r.ranks.size() && i < r.measured_exposure.size(); ++i) {
    nlohmann::json rank = fractions_of({r.predicted_exposure[i]}, {r.measured_exposure[i]});
    rank.update({{"rank", r.ranks[i].rank}, {"stage", r.ranks[i].stage}, {"step_s", r.ranks[i].step_s.measured}});
    ranks.push_back(std::move(rank));
  }
  for (const Fact& f : r.facts) about[f.what] = f.value;
  j.update({{"emulated", emulated_note},
            {"step_s", r.step_s.measured},
            {"predicted_step_s", r.step_s.predicted},
            {"error", r.step_s.error()},
            {"plan_step_s", view.plan_step_s},
            {"steps", r.measured.empty() ? 0 : r.measured.front().num_steps},
            {"ranks", ranks},
            {"kinds", kinds},
            {"phases", phases},
            {"exposure", exposure_json({r.predicted_exposure, r.measured_exposure}, rehearsed)},
            {"load", view.load},
            {"buffer_bytes", view.buffer_bytes},
            {"about", about},
            {"mesh", r.plan.mesh},
            {"schedule", r.plan.schedule.name},
            {"num_micro_batches", r.plan.num_micro_batches},
            {"all_to_all", pattern_json(r.plan, r.prediction)},
            {"platform", {{"name", r.prediction.platform}, {"measured", r.prediction.platform_measured}}}});
  return j;
}

}  // namespace trireme::report
