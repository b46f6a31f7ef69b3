#include "search/layouts/node_opener.h"

#include <algorithm>
#include <limits>

#include "search/layouts/fallbacks.h"
#include "search/layouts/layout_rules.h"

namespace trireme::search {

double NodeOpener::bound_cell_s(int cell) {
  bounds_.enter_cell(tree_.cells()[cell]);
  return bounds_.bound_cell_s();
}

void NodeOpener::open(const TreeNode& node, Opened& out) {
  const Cell& cell = tree_.cells()[node.cell];
  bounds_.enter_cell(cell);
  states_ = states_of(question_, cell);
  if (node.family < 0) return open_cell(node, out);
  bounds_.enter_family(tree_.families(node.cell)[node.family]);
  if (node.recomputation < 0) return open_family(node, out);
  bounds_.enter_recomputation(tree_.recomputations(bounds_.most_layers_of_a_piece())[node.recomputation]);
  fallbacks_ = fallbacks_of(states_);
  if (node.states < 0) return open_recomputation(node, out);
  if (!open_layout(node, out) && fallbacks_[node.states] < 0) push_fallbacks(node, node.states, out);
}

// Its families, each bounded by the fastest of its states with nothing computed again, where the most frugal
// recomputation fits.
void NodeOpener::open_cell(TreeNode node, Opened& out) {
  const double at_least = node.bound_s;
  const std::vector<Family>& families = tree_.families(node.cell);
  for (std::size_t f = 0; f < families.size(); ++f) {
    if (!bounds_.enter_family(families[f])) continue;
    node.family = static_cast<int>(f);
    const std::vector<Recomputation>& recomputations = tree_.recomputations(bounds_.most_layers_of_a_piece());
    // The last but for those of some layers only: all of a layer is computed again.
    TreeNode frugal = node;
    for (std::size_t r = 0; r < recomputations.size(); ++r)
      if (recomputations[r].layers == 0) frugal.recomputation = static_cast<int>(r);
    if (frugal.recomputation < 0) frugal.recomputation = 0;
    node.bound_s = std::max(at_least, fastest_s({}, out));  // with nothing computed again
    if (node.bound_s <= best_.cut_off_s() && may_fit(recomputations[frugal.recomputation], frugal, out))
      out.nodes.push_back(node);
  }
}

// Its recomputations, each bounded by the fastest of its states, where the most frugal of them fits.
void NodeOpener::open_family(TreeNode node, Opened& out) {
  const std::vector<Recomputation>& recomputations = tree_.recomputations(bounds_.most_layers_of_a_piece());
  const double at_least = node.bound_s;
  for (std::size_t r = 0; r < recomputations.size(); ++r) {
    node.recomputation = static_cast<int>(r);
    node.bound_s = std::max(at_least, fastest_s(recomputations[r], out));
    if (best_.open(node.cell, node.bound_s) && may_fit(recomputations[r], node, out)) out.nodes.push_back(node);
  }
}

// Its layouts, but for those that are worth a look only where another does not fit.
void NodeOpener::open_recomputation(const TreeNode& node, Opened& out) {
  for (std::size_t s = 0; s < states_.size(); ++s)
    if (fallbacks_[s] < 0) push_layout(node, s, out);
}

// True where the layout fits, or is out of the question.
bool NodeOpener::open_layout(const TreeNode& node, Opened& out) {
  const States& states = states_[node.states];
  bounds_.enter_states(states);
  if (!holds(schedule_rules(), bounds_.setting())) return true;
  if (states.swap.has(plan::Swap::activations) && bounds_.bound_s_with_copies() > best_.cut_off_s()) return false;
  out.estimate = estimate(question_, bounds_.setting(), shelf_, workspace_);
  if (!out.estimate->feasible) out.frugal.see(out.estimate->needed_bytes, node);
  return out.estimate->feasible;
}

// One that cannot fit is passed over for its fallbacks at once.
void NodeOpener::push_layout(const TreeNode& group, std::size_t states, Opened& out) {
  bounds_.enter_states(states_[states]);
  TreeNode layout = group;
  layout.states = static_cast<int>(states), layout.bound_s = std::max(group.bound_s, bounds_.bound_s());
  ++out.bounds;
  if (!best_.open(layout.cell, layout.bound_s)) return;
  const double bytes = bounds_.bound_bytes();
  ++out.bounds;
  if (bytes <= question_.target.capacity_bytes) return out.nodes.push_back(layout);
  out.frugal.see(bytes, layout);
  if (fallbacks_[states] < 0) push_fallbacks(group, states, out);
}

void NodeOpener::push_fallbacks(const TreeNode& group, std::size_t of, Opened& out) {
  // Together first: of all of them the one that shards and swaps most.
  std::size_t last = of;
  for (std::size_t other = of + 1; other < states_.size(); ++other)
    if (fallbacks_[other] == static_cast<int>(of)) last = other;
  if (last == of) return;
  ++out.bounds;
  bounds_.enter_states(states_[last]);
  if (bounds_.bound_frugal_bytes() > question_.target.capacity_bytes) return;
  for (std::size_t other = of + 1; other <= last; ++other)
    if (fallbacks_[other] == static_cast<int>(of)) push_layout(group, other, out);
}

bool NodeOpener::may_fit(const Recomputation& recomputation, const TreeNode& node, Opened& out) {
  const double bytes = bounds_.bound_family_bytes(recomputation);
  ++out.bounds;
  if (bytes <= question_.target.capacity_bytes) return true;
  out.frugal.see(bytes, node);
  return false;
}

// Swapping never makes a step shorter, nor does exposing what could overlap: only where these are given do they count.
double NodeOpener::fastest_s(const Recomputation& recomputation, Opened& out) {
  bounds_.enter_recomputation(recomputation);
  const States& first = states_.front();
  double best = std::numeric_limits<double>::infinity();
  for (const States& s : states_) {
    if (s.swap != first.swap || s.overlap_gradients != first.overlap_gradients ||
        s.overlap_parameters != first.overlap_parameters)
      continue;
    bounds_.enter_states(s);
    best = std::min(best, bounds_.bound_s());
    ++out.bounds;
  }
  return best;
}

}  // namespace trireme::search
