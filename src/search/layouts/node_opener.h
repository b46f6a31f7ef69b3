// Opens nodes of a search's tree: a group of layouts becomes the next level's groups, each with the bound of its step's
// time, where what is most frugal in it may fit in memory; a single layout is estimated in full.
#pragma once
#include <optional>
#include <vector>

#include "search/layouts/best_layouts.h"
#include "search/layouts/coarse.h"
#include "search/layouts/layout_tree.h"
#include "search/layouts/tree_node.h"

namespace trireme::search {

struct Opened {
  std::vector<TreeNode> nodes;
  std::optional<Estimate> estimate;
  MostFrugal frugal;  // of what can't fit
  long long bounds = 0;
};

// One each thread: they share the tree, the best layouts so far, which must not change meanwhile, and the schedules.
class NodeOpener {
 public:
  NodeOpener(const Question& question, const LayoutTree& tree, const BestLayouts& best, ScheduleShelf& shelf)
      : question_(question), tree_(tree), best_(best), shelf_(shelf), bounds_(question) {}

  double bound_cell_s(int cell);
  void open(const TreeNode& node, Opened& out);

 private:
  void open_cell(TreeNode node, Opened& out);
  void open_family(TreeNode node, Opened& out);
  void open_recomputation(const TreeNode& node, Opened& out);
  bool open_layout(const TreeNode& node, Opened& out);
  void push_layout(const TreeNode& group, std::size_t states, Opened& out);
  void push_fallbacks(const TreeNode& group, std::size_t of, Opened& out);
  bool may_fit(const Recomputation& recomputation, const TreeNode& node, Opened& out);
  double fastest_s(const Recomputation& recomputation, Opened& out);

  const Question& question_;
  const LayoutTree& tree_;
  const BestLayouts& best_;
  ScheduleShelf& shelf_;
  CoarseBounds bounds_;
  sim::GridWorkspace workspace_;
  std::vector<States> states_;  // of the cell that is open
  std::vector<int> fallbacks_;  // of these
};

}  // namespace trireme::search
