#include "report/exposure_tables.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/text_table.h"

namespace trireme::report {

namespace {

constexpr std::array<PipelinePhase, num_pipeline_phases> all_phases = {PipelinePhase::warm_up, PipelinePhase::steady,
                                                                       PipelinePhase::cool_down};
constexpr std::size_t most_ranks = 16;  // shown in the text
constexpr double least_exposed = 1e-3;  // of the step

std::string words(PipelinePhase phase) {
  switch (phase) {
    case PipelinePhase::warm_up:
      return "warm-up";
    case PipelinePhase::steady:
      return "steady";
    case PipelinePhase::cool_down:
      break;
  }
  return "cool-down";
}

std::string share(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : "-";
}

// One phase of both sides. `measured` is null where nothing was measured.
struct Sides {
  PhaseExposure predicted;
  const PhaseExposure* measured = nullptr;
};

MessageTime message_of(const PhaseExposure& phase, const MessageTime& kind) {
  for (const MessageTime& m : phase.messages)
    if (m.kind == kind.kind) return m;
  return {.kind = kind.kind, .lane = kind.lane};
}

// Kinds of either side, in order.
std::vector<MessageTime> kinds_of(const Sides& sides) {
  PhaseExposure both = sides.predicted;
  if (sides.measured) both.add(*sides.measured);
  return both.messages;
}

void add_rows(TextTable& table, const std::string& name, const Sides& sides, double step_s) {
  const auto row = [&](const std::string& phase, const std::string& what, double p, double of_p, double m,
                       double of_m) {
    std::vector<std::string> cells = {phase, what, show_seconds(p), share(p, of_p), "-", "-"};
    if (sides.measured) cells[4] = show_seconds(m), cells[5] = share(m, of_m);
    table.add(cells);
  };
  const PhaseExposure none, &predicted = sides.predicted, &measured = sides.measured ? *sides.measured : none;
  if (predicted.length_s <= 0 && measured.length_s <= 0) return;
  row(name, "bubble", predicted.bubble_s, predicted.length_s, measured.bubble_s, measured.length_s);
  for (const MessageTime& kind : kinds_of(sides)) {
    const MessageTime p = message_of(predicted, kind), m = message_of(measured, kind);
    if (std::max(p.exposed_s, m.exposed_s) < least_exposed * step_s) continue;
    row("", kind.kind, p.exposed_s, p.total_s, m.exposed_s, m.total_s);
  }
}

// One number by rank and phase, predicted and measured.
std::string by_rank(const ExposurePair& pair, const std::string& measured_as,
                    double (PhaseExposure::*fraction)() const) {
  TextTable table(
      {"rank", "stage", "step", measured_as, "warm-up", measured_as, "steady", measured_as, "cool-down", measured_as});
  const auto percent = [&](const PhaseExposure& p) { return fmt::format("{:.1f} %", 100 * (p.*fraction)()); };
  for (std::size_t i = 0; i < pair.predicted.size() && i < most_ranks; ++i) {
    const RankExposure& p = pair.predicted[i];
    const RankExposure* m = i < pair.measured.size() ? &pair.measured[i] : nullptr;
    std::vector<std::string> cells = {fmt::format("{}", p.rank), fmt::format("{}", p.stage), percent(p.step()),
                                      m ? percent(m->step()) : "-"};
    for (std::size_t phase = 0; phase < p.phases.size(); ++phase) {
      cells.push_back(percent(p.phases[phase]));
      cells.push_back(m ? percent(m->phases[phase]) : "-");
    }
    table.add(cells);
  }
  std::string out = table.text();
  if (pair.predicted.size() > most_ranks)
    out += fmt::format("  and {} more ranks\n", pair.predicted.size() - most_ranks);
  return out;
}

nlohmann::json fractions(const std::vector<RankExposure>& ranks, double (PhaseExposure::*fraction)() const) {
  nlohmann::json out = {{"step", (of_step(ranks).*fraction)()}};
  for (const PipelinePhase phase : all_phases) out[name_of(phase)] = (of_phase(ranks, phase).*fraction)();
  return out;
}

nlohmann::json phase_json(const std::string& name, const Sides& sides, const std::string& measured_as) {
  const auto pair = [&](double predicted, double measured) {
    return nlohmann::json{{"predicted", predicted},
                          {measured_as, sides.measured ? nlohmann::json(measured) : nlohmann::json(nullptr)}};
  };
  const PhaseExposure none, &p = sides.predicted, &m = sides.measured ? *sides.measured : none;
  nlohmann::json messages = nlohmann::json::array();
  for (const MessageTime& kind : kinds_of(sides)) {
    const MessageTime own = message_of(p, kind), other = message_of(m, kind);
    messages.push_back({{"kind", kind.kind},
                        {"lane", kind.lane},
                        {"seconds", pair(own.total_s, other.total_s)},
                        {"exposed_s", pair(own.exposed_s, other.exposed_s)}});
  }
  return {{"phase", name},
          {"length_s", pair(p.length_s, m.length_s)},
          {"compute_s", pair(p.compute_s, m.compute_s)},
          {"bubble_s", pair(p.bubble_s, m.bubble_s)},
          {"bubble_fraction", pair(p.bubble_fraction(), m.bubble_fraction())},
          {"exposed_all_to_all_fraction", pair(p.exposed_all_to_all_fraction(), m.exposed_all_to_all_fraction())},
          {"messages", messages}};
}

nlohmann::json phases_json(const std::vector<RankExposure>& predicted, const std::vector<RankExposure>& measured,
                           const std::string& measured_as) {
  const PhaseExposure step = of_step(measured);
  nlohmann::json out = {phase_json("step", {of_step(predicted), measured.empty() ? nullptr : &step}, measured_as)};
  for (const PipelinePhase phase : all_phases) {
    const PhaseExposure m = of_phase(measured, phase);
    out.push_back(
        phase_json(name_of(phase), {of_phase(predicted, phase), measured.empty() ? nullptr : &m}, measured_as));
  }
  return out;
}

}  // namespace

std::string exposure_text(const ExposurePair& pair, const std::string& measured_as) {
  TextTable table({"phase", "waits for", "predicted", "share", measured_as, "share"});
  const double step_s = of_step(pair.predicted).length_s;
  for (const PipelinePhase phase : all_phases) {
    const PhaseExposure m = of_phase(pair.measured, phase);
    add_rows(table, words(phase), {of_phase(pair.predicted, phase), pair.measured.empty() ? nullptr : &m}, step_s);
  }
  const PhaseExposure m = of_step(pair.measured), p = of_step(pair.predicted);
  add_rows(table, "step", {p, pair.measured.empty() ? nullptr : &m}, step_s);
  std::string out =
      "\nBubble and exposed messages by phase, a step, all ranks (a bubble's share is of the phase, a message's of its "
      "own time)\n" +
      table.text();
  out += "\nBubble by rank, of the phase\n" + by_rank(pair, measured_as, &PhaseExposure::bubble_fraction);
  const auto has_all_to_all = [](const PhaseExposure& of) {
    return std::any_of(of.messages.begin(), of.messages.end(),
                       [](const MessageTime& message) { return message.lane == plan::Lane::ep; });
  };
  if (has_all_to_all(p))
    out += "\nExposed part of dispatch and combine by rank\n" +
           by_rank(pair, measured_as, &PhaseExposure::exposed_all_to_all_fraction);
  return out;
}

nlohmann::json bubble_fractions(const std::vector<RankExposure>& ranks) {
  return fractions(ranks, &PhaseExposure::bubble_fraction);
}
nlohmann::json exposed_all_to_all_fractions(const std::vector<RankExposure>& ranks) {
  return fractions(ranks, &PhaseExposure::exposed_all_to_all_fraction);
}

nlohmann::json exposure_json(const ExposurePair& pair, const std::string& measured_as) {
  nlohmann::json ranks = nlohmann::json::array();
  for (std::size_t i = 0; i < pair.predicted.size(); ++i) {
    std::vector<RankExposure> measured;
    if (i < pair.measured.size()) measured.push_back(pair.measured[i]);
    ranks.push_back({{"rank", pair.predicted[i].rank},
                     {"stage", pair.predicted[i].stage},
                     {"phases", phases_json({pair.predicted[i]}, measured, measured_as)}});
  }
  return {{"phases", phases_json(pair.predicted, pair.measured, measured_as)}, {"ranks", ranks}};
}

}  // namespace trireme::report
