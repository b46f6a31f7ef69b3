#include "plan/all_to_all/traffic.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"

namespace trireme::plan {
namespace {

void count(const Transfer& t, Flow flow, const NodeShape& shape, const RowCounts& counts, Traffic& into) {
  if (t.from == t.to) return;
  LevelTraffic& level = into.at(shape.reach(t.from, t.to));
  ++level.messages;
  for (const Parcel& parcel : t.parcels) level.rows += rows_of(parcel, flow, counts);
}

LevelTraffic sum(std::initializer_list<LevelTraffic> parts) {
  LevelTraffic out;
  for (const LevelTraffic& part : parts) {
    out.messages += part.messages;
    out.rows += part.rows;
  }
  return out;
}

}  // namespace

LevelTraffic Traffic::off_node() const {
  return sum({at(Reach::group), at(Reach::beyond)});
}
LevelTraffic Traffic::total() const {
  return sum({on_node(), off_node()});
}

Traffic traffic(const Pattern& pattern, int member, const NodeShape& shape, const RowCounts& counts) {
  Traffic out;
  for (const Phase& phase : pattern.phases)
    for (const Transfer& t : phase.transfers)
      if (t.from == member) count(t, pattern.flow, shape, counts, out);
  return out;
}

std::vector<Traffic> traffic(const Pattern& pattern, const NodeShape& shape, const RowCounts& counts) {
  TRIREME_CHECK(pattern.size == shape.size(), "{} of {} members on {}", pattern.name, pattern.size, to_text(shape));
  std::vector<Traffic> out(static_cast<std::size_t>(pattern.size));
  for (const Phase& phase : pattern.phases)
    for (const Transfer& t : phase.transfers)
      count(t, pattern.flow, shape, counts, out[static_cast<std::size_t>(t.from)]);
  return out;
}

SymbolicCost symbolic_cost(const Pattern& pattern, const NodeShape& shape, const RowCounts& counts) {
  TRIREME_CHECK(pattern.size == shape.size());
  SymbolicCost out;
  for (const Phase& phase : pattern.phases) {
    std::vector<Traffic> by_member(static_cast<std::size_t>(pattern.size));
    for (const Transfer& t : phase.transfers)
      count(t, pattern.flow, shape, counts, by_member[static_cast<std::size_t>(t.from)]);
    PhaseCost cost{.name = phase.name, .after = phase.after};
    for (std::size_t level = 0; level < cost.by_reach.size(); ++level)
      for (const Traffic& t : by_member) {
        cost.by_reach[level].messages = std::max(cost.by_reach[level].messages, t.by_reach[level].messages);
        cost.by_reach[level].rows = std::max(cost.by_reach[level].rows, t.by_reach[level].rows);
      }
    out.phases.push_back(std::move(cost));
  }
  return out;
}

double SymbolicCost::seconds(const std::array<Rates, 3>& rates) const {
  std::vector<double> end;
  double last = 0;
  for (const PhaseCost& phase : phases) {
    double begin = 0, longest = 0;
    for (const int before : phase.after) begin = std::max(begin, end[static_cast<std::size_t>(before)]);
    for (std::size_t level = 0; level < rates.size(); ++level)
      longest = std::max(longest, phase.by_reach[level].messages * rates[level].latency_s +
                                      phase.by_reach[level].rows * rates[level].seconds_per_row);
    end.push_back(begin + longest);
    last = std::max(last, end.back());
  }
  return last;
}

std::string to_text(const SymbolicCost& cost) {
  static const std::array<const char*, 3> letter{"L", "R", "F"};
  const auto of_phase = [](const PhaseCost& phase) {
    std::vector<std::string> levels;
    for (std::size_t level = 0; level < letter.size(); ++level) {
      const LevelTraffic& t = phase.by_reach[level];
      if (t.messages > 0) levels.push_back(fmt::format("{0} a{2} + {1:.6g} m b{2}", t.messages, t.rows, letter[level]));
    }
    if (levels.empty()) return std::string("0");
    return levels.size() == 1 ? levels.front() : fmt::format("max({})", fmt::join(levels, ", "));
  };
  // Chains of phases, each with the phase that it is after (generators make no other shapes than chains side by side).
  std::vector<std::string> chains;
  std::vector<int> chain_of;
  for (std::size_t i = 0; i < cost.phases.size(); ++i) {
    const auto& after = cost.phases[i].after;
    if (after.empty()) {
      chain_of.push_back(static_cast<int>(chains.size()));
      chains.push_back(of_phase(cost.phases[i]));
    } else {
      const int chain = chain_of[static_cast<std::size_t>(*std::max_element(after.begin(), after.end()))];
      chain_of.push_back(chain);
      chains[static_cast<std::size_t>(chain)] += " -> " + of_phase(cost.phases[i]);
    }
  }
  if (chains.empty()) return "0";
  return chains.size() == 1 ? chains.front() : fmt::format("max({})", fmt::join(chains, ", "));
}

}  // namespace trireme::plan
