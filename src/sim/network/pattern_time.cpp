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
PatternTime time_of_stream(const Pattern& pattern, const PatternFlows& flows) {
  std::vector<double> latency(pattern.phases.size(), 0), arrives(pattern.phases.size(), 0);
  for (const Flow& flow : flows.flows()) {
    double& of_phase = latency[static_cast<std::size_t>(flow.phase)];
    of_phase = std::max(of_phase, flows.latency_s(flow));
  }
  PatternTime out;
  const PatternFlows::Load load = flows.busiest();
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
  out.inside_s = flows.inside_s(), out.outside_s = flows.outside_s();
  return out;
}

PatternTime time_of(const Pattern& pattern, const PatternFlows& flows, bool streamed) {
  if (streamed) return time_of_stream(pattern, flows);
  const bool free = pattern.phases.size() == 1 && pattern.phases.front().in_flight == 0;
  const std::vector<PhaseSpan> spans = free ? std::vector{time_of_one_phase(flows)} : times_by_events(pattern, flows);
  PatternTime out;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    out.phases.push_back({pattern.phases[i].name, spans[i].begin_s, spans[i].end_s});
    out.seconds = std::max(out.seconds, spans[i].end_s);
  }
  const PatternFlows::Load load = flows.busiest();
  out.busiest = 2 * load.seconds < out.seconds ? "latency" : load.name;
  out.inside_s = flows.inside_s(), out.outside_s = flows.outside_s();
  return out;
}

}  // namespace

PatternTime pattern_time(const Pattern& pattern, const NodeShape& shape, const Fabric& fabric,
                         const plan::RowCounts& counts, double row_bytes) {
  TRIREME_CHECK(pattern.size == shape.size(), "{} of {} members on {}", pattern.name, pattern.size, to_text(shape));
  if (fabric.crowded()) return crowd_time(pattern, shape, fabric, counts, row_bytes, shape.size());
  return time_of(pattern, PatternFlows(pattern, shape, fabric, counts, row_bytes, shape.size()), fabric.streamed);
}

PatternTime balanced_time(const std::string& name, const NodeShape& shape, const Fabric& fabric,
                          const plan::UniformRouting& counts, double row_bytes, int in_flight) {
  if (!FabricLinks::fold(fabric, shape))
    return pattern_time(plan::make_pattern(name, shape, {.in_flight = in_flight}), shape, fabric, counts, row_bytes);
  const int nodes = shape.nodes_per_group() > 0 ? shape.nodes_per_group() : 1;
  const int period = nodes * shape.ranks(0);
  const Pattern part = plan::make_pattern(name, shape, {.in_flight = in_flight, .senders = {0, period}});
  if (fabric.crowded()) return crowd_time(part, shape, fabric, counts, row_bytes, period);
  return time_of(part, PatternFlows(part, shape, fabric, counts, row_bytes, period), fabric.streamed);
}

}  // namespace trireme::sim
