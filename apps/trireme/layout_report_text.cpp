#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/parameters.h"
#include "plan/pieces.h"
#include "report/text_table.h"
#include "trireme/found_run.h"
#include "trireme/layout_rates.h"
#include "trireme/layout_report.h"

namespace trireme::apps {

namespace {

using report::TextTable;

std::string gigabytes(double bytes) {
  return fmt::format("{:.1f}", bytes / 1e9);
}

// One line a stage: what it does at each hundredth of the step's pipeline.
std::string strip(const LayoutAnswer& a) {
  constexpr int columns = 96;
  double end = 0;
  for (const auto& row : a.spans)
    for (const plan::Span& s : row) end = std::max(end, s.end_s);
  if (end <= 0) return "";
  std::string out = fmt::format(
      "\nSchedule: {} over {:.3f} s ({} idle); F forward, B backward, I input gradient, W weight gradient, M both, . "
      "idle\n",
      a.schedule.name, end, fmt::format("{:.1f} %", 100 * a.layout->time.bubble));
  for (std::size_t s = 0; s < a.spans.size(); ++s) {
    std::string line(columns, '.');
    std::size_t slot = 0;
    const auto& row = a.schedule.rows[s];
    for (int c = 0; c < columns; ++c) {
      const double at = end * (c + 0.5) / columns;
      while (slot + 1 < row.size() && a.spans[s][slot].end_s <= at) ++slot;
      if (slot >= row.size() || a.spans[s][slot].start_s > at || a.spans[s][slot].end_s <= at) continue;
      const bool joined = row[slot].joined || (slot > 0 && row[slot - 1].joined);
      line[c] = joined ? 'M' : row[slot].kind == plan::SlotKind::no_op ? '.' : static_cast<char>(row[slot].kind);
    }
    out += fmt::format("  stage {:>2} |{}|\n", s, line);
  }
  return out;
}

std::string memory_text(const LayoutAnswer& a) {
  TextTable table({"stage", "layers", "states", "activations", "working", "other", "needs GB", "of", "peak at"},
                  /*last_left=*/true);
  const auto& l = a.layout->setting.layout;
  std::vector<int> layers(l.pp, 0);
  const int pieces = plan::num_pieces(a.schedule);
  const auto of_pieces = plan::layers_of_pieces(l, a.layout->setting.model.num_layers);
  for (int s = 0; s < l.pp; ++s)
    for (int c = 0; c < a.schedule.num_chunks; ++c)
      if (const int p = plan::piece_of(a.schedule, s, c); p >= 0 && p < pieces) layers[s] += of_pieces[p].num_layers;
  for (const sim::StageMemory& m : a.memory.stages) {
    std::map<std::string, double> groups;
    for (const sim::MemoryItem& i : m.items)
      if (i.place == sim::MemoryPlace::device) groups[i.group] += i.bytes;
    table.add({std::to_string(m.stage), std::to_string(layers[m.stage]), gigabytes(groups["state"]),
               gigabytes(groups["activations"]), gigabytes(groups["working"]),
               gigabytes(groups["buffers"] + groups["overhead"] + groups["fragmentation"]), gigabytes(m.needed_bytes),
               gigabytes(a.chosen.question.target.capacity_bytes), m.peak});
  }
  std::string out = "\nMemory of a rank of each stage at its peak, GB (1e9 bytes)\n" + table.text();
  const sim::StageMemory& worst = a.memory.stages[a.memory.heaviest];
  std::vector<sim::MemoryItem> items = worst.items;
  std::stable_sort(items.begin(), items.end(), [](const auto& x, const auto& y) { return x.bytes > y.bytes; });
  TextTable held({"stage " + std::to_string(worst.stage) + " holds", "GB", "in"}, true);
  for (std::size_t i = 0; i < items.size() && i < 10; ++i)
    held.add({items[i].group + ": " + items[i].name, gigabytes(items[i].bytes),
              items[i].place == sim::MemoryPlace::device ? "device" : "host"});
  out += "\n" + held.text();
  if (a.memory.cold_start_needed_bytes > 0)
    out += fmt::format("  before experts are balanced: {} GB\n", gigabytes(a.memory.cold_start_needed_bytes));
  return out;
}

std::string time_text(const LayoutAnswer& a, bool explain) {
  const sim::StepTime& t = a.layout->time;
  TextTable table({"of the step", "s", "share"});
  const auto add = [&](const char* what, double s) {
    table.add({what, fmt::format("{:.4f}", s), fmt::format("{:.1f} %", 100 * s / t.step_s)});
  };
  add("pipeline", t.pipeline_s);
  add("gradients' reduction, not hidden", t.reduce_s);
  add("parameters' gathering, not hidden", t.gather_s);
  add("optimizer", t.optimizer_s);
  add("(of the pipeline: copies to the host, not hidden)", a.layout->time.swap_s);
  std::string out = "\nTime\n" + table.text();
  TextTable terms(
      {explain ? "every term of the busiest stage" : "largest terms of the busiest stage", "s a step", "from"}, true);
  std::vector<sim::EstimateTerm> list = a.terms;
  if (!explain) {
    std::stable_sort(list.begin(), list.end(), [](const auto& x, const auto& y) { return x.seconds > y.seconds; });
    if (list.size() > 12) list.resize(12);
  }
  for (const sim::EstimateTerm& term : list) terms.add({term.what, fmt::format("{:.4f}", term.seconds), fmt::format("{}; {}", term.source, term.formula)});
  out += "\n" + terms.text();
  if (!explain) return out;
  TextTable rates({"priced with", "value", "from"}, true);
  for (const Rate& r : rates_of(a.chosen.question.target))
    rates.add({r.what, fmt::format("{:.5g} {}", r.value, r.unit), r.source});
  return out + "\n" + rates.text();
}

std::string ranking(const LayoutAnswer& a, const std::vector<search::Estimate>& list, bool devices) {
  TextTable table({"", "step s", "tokens/s/device", "MFU", "GB", "layout"}, true);
  for (std::size_t i = 0; i < list.size(); ++i)
    table.add({devices ? std::to_string(list[i].setting.num_devices) : std::to_string(i + 1),
               fmt::format("{:.3f}", list[i].time.step_s), fmt::format("{:.1f}", list[i].time.tokens_per_s_per_device),
               fmt::format("{:.1f} %", 100 * a.mfu(list[i])), gigabytes(list[i].needed_bytes),
               layout_line(list[i].setting)});
  return table.text();
}

}  // namespace

std::string answer_text(const LayoutAnswer& a, bool explain) {
  const search::Question& q = a.chosen.question;
  const sim::Setting& base = q.base;
  const auto counts = model::count_parameters(base.model);
  std::string out =
      fmt::format("{}: {} parameters, {} active; {} x {} ({}), {} sequences of {} tokens a step, {}\n", base.model.name,
                  report::show_count(double(counts.total)), report::show_count(double(counts.active)), base.num_devices,
                  q.target.device, q.target.platform, base.batch.global_batch, base.batch.sequence_length,
                  model::name_of(base.precision.compute));
  for (const std::string& line : a.chosen.assumptions) out += "  assumed: " + line + "\n";
  out += fmt::format("  {:.3g} layouts; {} bounds, {} estimated in full, {:.1f} s\n", a.result.layouts, a.result.bounds,
                     a.result.estimates, a.result.seconds);
  if (!a.feasible()) {
    out += "\nNo layout fits.\n";
    for (const std::string& r : a.result.reasons) out += "  " + r + "\n";
    if (!a.layout) return out;
    out += "The layout that needs least memory, by its bound, all the same:\n";
  }
  const search::Estimate& e = *a.layout;
  out += fmt::format("\nLayout: {}\n", layout_line(e.setting));
  if (!e.setting.layout.stage_layers.empty())
    out += fmt::format("  layers by piece: {}\n", fmt::join(e.setting.layout.stage_layers, " "));
  if (!a.refused.empty()) out += fmt::format("  trireme train can't run: {}\n", refused_text(a.refused));
  out += fmt::format(
      "  step {:.3f} s, {:.1f} tokens/s a device, {:.3g} tokens/s, {:.1f} model TFLOP/s a device, MFU {:.1f} %, {} of "
      "{} GB\n",
      e.time.step_s, e.time.tokens_per_s_per_device, e.tokens_per_s(),
      e.time.tokens_per_s_per_device * a.flops_per_token / 1e12, 100 * a.mfu(e), gigabytes(e.needed_bytes),
      gigabytes(q.target.capacity_bytes));
  out += e.simulated ? "  step and memory are those of its plan's actions, simulated\n"
                     : fmt::format("  step and memory are those of its schedule's slots: with more than {} actions no "
                                   "plan is simulated or drawn\n", report::show_count(search::most_actions));
  out += "  " + model::gflop_per_token_text(base.model, base.batch.sequence_length, a.convention) + "\n";
  out += memory_text(a) + time_text(a, explain) + strip(a);
  if (a.result.best.size() > 1)
    out += "\nBest layouts, one for each set of degrees\n" + ranking(a, a.result.best, false);
  if (a.fronts) {
    out += "\nFastest for each amount of memory left free\n" + ranking(a, a.fronts->headroom, false);
    out += "\nFastest for each number of devices (first column)\n" + ranking(a, a.fronts->devices, true);
  }
  return out;
}

}  // namespace trireme::apps
