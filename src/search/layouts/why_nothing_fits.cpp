#include "search/layouts/why_nothing_fits.h"

#include <limits>

#include <fmt/format.h>

#include "search/layouts/coarse.h"
#include "search/layouts/layout_rules.h"

namespace trireme::search {

namespace {

// Rules that the given degrees break, with the others at their smallest.
std::vector<std::string> why_no_cell(const Question& q) {
  sim::Setting s = q.base;
  for (const auto& [key, degree] : {std::pair<const char*, int*>{"layout.pp", &s.layout.pp},
                                    {"layout.tp", &s.layout.tp},
                                    {"layout.cp", &s.layout.cp},
                                    {"layout.ep", &s.layout.ep},
                                    {"layout.etp", &s.layout.etp}})
    if (!q.is_given(key)) *degree = 1;
  if (!q.is_given("layout.dp")) s.layout.dp = data_degree(s);
  if (!q.is_given("batch.micro_batch")) s.batch.micro_batch = 1;
  std::vector<std::string> reasons = broken_rules(s);
  if (reasons.empty())
    reasons = {
        fmt::format("no combination of degrees fits {} devices, a global batch of {} sequences and what is given",
                    s.num_devices, s.batch.global_batch)};
  return reasons;
}

// Every schedule broke a rule: the reasons of the first.
std::vector<std::string> why_no_schedule(const LayoutTree& tree, CoarseBounds& bounds) {
  bounds.enter_cell(tree.cells()[0]);
  if (!tree.families(0).empty()) bounds.enter_family(tree.families(0)[0]);
  std::vector<std::string> reasons = broken_rules(bounds.setting());
  if (reasons.empty()) reasons = {"no schedule fits the degrees, the batch and what is given"};
  return reasons;
}

// The node's layout, or of a group's the one that needs least.
void enter_most_frugal(const Question& q, const LayoutTree& tree, const TreeNode& node, CoarseBounds& bounds) {
  const Cell& cell = tree.cells()[node.cell];
  bounds.enter_cell(cell);
  bounds.enter_family(tree.families(node.cell)[node.family]);
  bounds.enter_recomputation(tree.recomputations(bounds.most_layers_of_a_piece())[node.recomputation]);
  const std::vector<States> states = states_of(q, cell);
  std::size_t least = node.states >= 0 ? node.states : 0;
  double least_bytes = std::numeric_limits<double>::infinity();
  for (std::size_t s = 0; s < states.size() && node.states < 0; ++s) {
    bounds.enter_states(states[s]);
    if (const double bytes = bounds.bound_bytes(); bytes < least_bytes) least = s, least_bytes = bytes;
  }
  bounds.enter_states(states[least]);
}

}  // namespace

WhyNothingFits why_nothing_fits(const Question& q, const LayoutTree& tree, const MostFrugal& frugal,
                                ScheduleShelf& shelf) {
  if (tree.cells().empty()) return {.reasons = why_no_cell(q), .closest = {}};
  CoarseBounds bounds(q);
  if (frugal.bytes == MostFrugal{}.bytes) return {.reasons = why_no_schedule(tree, bounds), .closest = {}};
  enter_most_frugal(q, tree, frugal.node, bounds);
  if (!holds(schedule_rules(), bounds.setting())) return {.reasons = broken_rules(bounds.setting()), .closest = {}};
  sim::GridWorkspace workspace;
  WhyNothingFits out{.reasons = {}, .closest = estimate(q, bounds.setting(), shelf, workspace, true)};
  out.reasons = out.closest->reasons;
  if (out.reasons.empty())
    out.reasons = {fmt::format("the most frugal layout needs {:.1f} GB of {:.1f}", out.closest->needed_bytes / 1e9,
                               q.target.capacity_bytes / 1e9)};
  return out;
}

}  // namespace trireme::search
