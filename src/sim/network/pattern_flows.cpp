#include "sim/network/pattern_flows.h"

#include <algorithm>

namespace trireme::sim {

PatternFlows::PatternFlows(const plan::Pattern& pattern, const plan::NodeShape& shape, const Fabric& fabric,
                           const plan::RowCounts& counts, int period)
    : shape_(shape), fabric_(fabric), links_(fabric, shape, period), period_(period) {
  std::size_t transfers = 0;
  for (const plan::Phase& phase : pattern.phases) transfers += phase.transfers.size();
  flows_.reserve(transfers);
  for (std::size_t i = 0; i < pattern.phases.size(); ++i) {
    const plan::Phase& phase = pattern.phases[i];
    steps_.emplace_back(static_cast<std::size_t>(period));
    for (Steps& s : steps_.back()) {
      const std::size_t expected = phase.transfers.size() / static_cast<std::size_t>(period);
      s.sends.reserve(expected);
      s.receives.reserve(expected);
    }
    for (const plan::Transfer& t : phase.transfers)
      if (t.from != t.to) add(t, static_cast<int>(i), phase.in_flight > 0, pattern, counts);
    for (Steps& s : steps_.back()) {
      const std::size_t steps = std::max(s.sends.size(), s.receives.size());
      s.sends.resize(steps, Steps::none);
      s.receives.resize(steps, Steps::none);
      s.own_s.assign(steps, 0);
    }
  }
  rows_of_link_.assign(static_cast<std::size_t>(links_.size()), 0);
  for (const Flow& flow : flows_) {
    for (const int link : links_.path(flow.from, flow.to)) rows_of_link_[static_cast<std::size_t>(link)] += flow.rows;
    const double half = fabric.wire(shape.reach(flow.from, flow.to)).message_s / 2;
    auto& of_phase = steps_[static_cast<std::size_t>(flow.phase)];
    of_phase[static_cast<std::size_t>(sender(flow))].own_s[static_cast<std::size_t>(flow.send)] += half;
    of_phase[static_cast<std::size_t>(receiver(flow))].own_s[static_cast<std::size_t>(flow.receive)] += half;
  }
}

void PatternFlows::add(const plan::Transfer& t, int phase, bool bounded, const plan::Pattern& pattern,
                       const plan::RowCounts& counts) {
  double rows = 0;
  for (const plan::Parcel& parcel : t.parcels) rows += plan::rows_of(parcel, pattern.flow, counts);
  // Without rows there is no message, which is a step only where they are bounded.
  if (rows <= 0 && !bounded) return;
  auto& of_phase = steps_[static_cast<std::size_t>(phase)];
  Steps& from = of_phase[static_cast<std::size_t>(links_.folded(t.from))];
  Steps& to = of_phase[static_cast<std::size_t>(links_.folded(t.to))];
  const int flow = rows > 0 ? static_cast<int>(flows_.size()) : Steps::none;
  from.sends.push_back(flow);
  to.receives.push_back(flow);
  if (rows <= 0) return;
  ++to.num_receives;
  flows_.push_back({t.from, t.to, static_cast<int>(from.sends.size()) - 1, static_cast<int>(to.receives.size()) - 1,
                    phase, rows});
}

PatternFlows::Load PatternFlows::busiest(double row_bytes) const {
  Load most{"messages", 0};
  for (int m = 0; m < period_; ++m) {
    double own = 0;
    for (const auto& of_phase : steps_)
      for (const double s : of_phase[static_cast<std::size_t>(m)].own_s) own += s;
    most.seconds = std::max(most.seconds, own);
  }
  if (const Load link = busiest_link(row_bytes, 0, links_.size()); link.seconds > most.seconds) most = link;
  return most;
}

PatternFlows::Load PatternFlows::busiest_link(double row_bytes, int first, int last) const {
  Load most;
  for (int link = first; link < last; ++link) {
    const double seconds = rows_of_link_[static_cast<std::size_t>(link)] * row_bytes * links_.seconds_per_byte(link);
    if (seconds > most.seconds) most = {links_.name(link), seconds};
  }
  return most;
}

}  // namespace trireme::sim
