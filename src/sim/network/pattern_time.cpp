#include "sim/network/pattern_time.h"

#include <algorithm>

#include "base/errors.h"
#include "plan/all_to_all/generators.h"
#include "sim/network/crowd_time.h"
#include "sim/network/flow_times.h"
#include "sim/network/pattern_flows.h"

namespace trireme::sim {
namespace {

using plan::NodeShape;
using plan::Pattern;

// Phases in one stream: the busiest link's work, and the latencies on the way.
PatternTime time_of_stream(const Pattern& pattern, const PatternFlows& flows, double row_bytes) {
  std::vector<double> latency(pattern.phases.size(), 0), arrives(pattern.phases.size(), 0);
  for (const Flow& flow : flows.flows()) {
    double& of_phase = latency[static_cast<std::size_t>(flow.phase)];
    of_phase = std::max(of_phase, flows.latency_s(flow));
  }
  PatternTime out;
  const PatternFlows::Load load = flows.busiest(row_bytes);
  double longest = 0;
  for (std::size_t i = 0; i < pattern.phases.size(); ++i) {
    double before = 0;
    for (const int b : pattern.phases[i].after) before = std::max(before, arrives[static_cast<std::size_t>(b)]);
    arrives[i] = before + latency[i];
    longest = std::max(longest, arrives[i]);
    out.phases.push_back({pattern.phases[i].name, before, arrives[i] + load.seconds});
  }
  out.seconds = longest + load.seconds;
  out.busiest = longest > load.seconds ? "latency" : load.name;
  out.inside_s = flows.inside_s(row_bytes), out.outside_s = flows.outside_s(row_bytes);
  return out;
}

PatternTime time_of(const Pattern& pattern, const PatternFlows& flows, double row_bytes, bool streamed) {
  if (streamed) return time_of_stream(pattern, flows, row_bytes);
  const bool free = pattern.phases.size() == 1 && pattern.phases.front().in_flight == 0;
  const std::vector<PhaseSpan> spans = free ? std::vector{time_of_one_phase(flows, row_bytes)}
                                            : times_by_events(pattern, flows, row_bytes);
  PatternTime out;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    out.phases.push_back({pattern.phases[i].name, spans[i].begin_s, spans[i].end_s});
    out.seconds = std::max(out.seconds, spans[i].end_s);
  }
  const PatternFlows::Load load = flows.busiest(row_bytes);
  out.busiest = 2 * load.seconds < out.seconds ? "latency" : load.name;
  out.inside_s = flows.inside_s(row_bytes), out.outside_s = flows.outside_s(row_bytes);
  return out;
}

}  // namespace

PatternTime pattern_time(const Pattern& pattern, const NodeShape& shape, const Fabric& fabric,
                         const plan::RowCounts& counts, double row_bytes) {
  TRIREME_CHECK(pattern.size == shape.size(), "{} of {} members on {}", pattern.name, pattern.size, to_text(shape));
  if (fabric.crowded()) return crowd_time(pattern, shape, fabric, counts, row_bytes, shape.size());
  return time_of(pattern, PatternFlows(pattern, shape, fabric, counts, shape.size()), row_bytes, fabric.streamed);
}

namespace {

// How many members stand for all.
int period_of(const NodeShape& shape, const Fabric& fabric) {
  if (!FabricLinks::fold(fabric, shape)) return shape.size();
  return (shape.nodes_per_group() > 0 ? shape.nodes_per_group() : 1) * shape.ranks(0);
}

}  // namespace

BalancedPattern::BalancedPattern(const std::string& name, const NodeShape& shape, const Fabric& fabric,
                                 const plan::UniformRouting& counts, int in_flight)
    : shape_(shape),
      fabric_(fabric),
      counts_(counts),
      period_(period_of(shape, fabric)),
      pattern_(plan::make_pattern(name, shape, {.in_flight = in_flight, .senders = {0, period_}})) {
  if (fabric.crowded()) return;
  flows_.emplace(pattern_, shape_, fabric_, counts_, period_);
  // What is followed are flows: the parcels that they were made of are not asked again.
  for (plan::Phase& phase : pattern_.phases) phase.transfers = {};
}

PatternTime BalancedPattern::at(double row_bytes) const {
  if (!flows_) return crowd_time(pattern_, shape_, fabric_, counts_, row_bytes, period_);
  return time_of(pattern_, *flows_, row_bytes, fabric_.streamed);
}

PatternTime balanced_time(const std::string& name, const NodeShape& shape, const Fabric& fabric,
                          const plan::UniformRouting& counts, double row_bytes, int in_flight) {
  return BalancedPattern(name, shape, fabric, counts, in_flight).at(row_bytes);
}

}  // namespace trireme::sim
