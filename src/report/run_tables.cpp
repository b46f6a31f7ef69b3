#include "report/run_tables.h"

#include <algorithm>

#include <fmt/format.h>

#include "report/action_kinds.h"
#include "report/text_table.h"

namespace trireme::report {

namespace {

constexpr int strip_width = 92;

}  // namespace

std::string measured_text(double value, std::string (*show)(double)) { return value == 0 ? "-" : show(value); }

std::string kinds_text(const std::vector<KindRow>& rows, bool lanes, const std::string& measured_as) {
  std::vector<std::string> heading = {lanes ? "kind" : "segment"};
  if (lanes) heading.push_back("lane");
  for (const std::string& h : {std::string("actions"), std::string("predicted"), measured_as, std::string("error")})
    heading.push_back(h);
  TextTable table(heading);
  for (const KindRow& k : rows) {
    std::vector<std::string> row = {k.kind};
    if (lanes) row.push_back(name_of(k.lane));
    row.push_back(fmt::format("{}", k.count));
    row.push_back(show_seconds(k.seconds.predicted));
    row.push_back(measured_text(k.seconds.measured, show_seconds));
    row.push_back(show_error(k.seconds.predicted, k.seconds.measured));
    table.add(row);
  }
  return table.text();
}

std::string phases_text(const std::vector<PhaseRow>& rows, const std::string& measured_as) {
  TextTable table({"exchange", "of", "phase", "times", "predicted", measured_as, "error"});
  std::string last;
  for (const PhaseRow& p : rows) {
    table.add({p.kind == last ? "" : p.kind, p.part, p.phase, fmt::format("{}", p.count), show_seconds(p.seconds.predicted),
               measured_text(p.seconds.measured, show_seconds), show_error(p.seconds.predicted, p.seconds.measured)});
    last = p.kind;
  }
  return table.text();
}

std::string strips_text(const RunReport& r, const std::string& measured_as) {
  const double longest = std::max(r.step_s.predicted, r.step_s.measured);
  const auto measured = r.measured_timelines();
  std::string out = fmt::format("\nTimeline of the compute lane, {} across (F forward, B backward, l loading, o norm and optimizer)\n",
                                show_seconds(longest));
  constexpr std::size_t most = 16;  // ranks shown
  for (std::size_t i = 0; i < r.ranks.size() && i < most; ++i) {
    const RankRow& row = r.ranks[i];
    const plan::StagePlan& stage = r.plan.stages[row.stage];
    out += fmt::format("  rank {:>3} predicted |{}|\n", row.rank,
                       compute_strip(stage, r.prediction.ranks[row.rank].spans, longest, strip_width));
    for (const plan::RankTimeline& m : measured)
      if (m.rank == row.rank)
        out += fmt::format("  {:>18} |{}|\n", measured_as, compute_strip(stage, m.spans, longest, strip_width));
  }
  if (r.ranks.size() > most) out += fmt::format("  and {} more ranks\n", r.ranks.size() - most);
  return out;
}

}  // namespace trireme::report
