// The tree that a search opens: the cells of a question, the families of each, and what a family's backward may compute
// again. Listed once; the last level, states, is listed where it is needed (states_of).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "search/layouts/layout_space.h"

namespace trireme::search {

class LayoutTree {
 public:
  LayoutTree(const Question& question, std::size_t threads);
  LayoutTree(const LayoutTree&) = delete;

  const std::vector<Cell>& cells() const { return cells_; }
  const std::vector<Family>& families(int cell) const { return *families_of_cell_[cell]; }
  const std::vector<Recomputation>& recomputations(int most_layers_of_a_piece) const {
    return recomputations_[most_layers_of_a_piece];
  }
  // About: before schedule rules.
  double num_layouts(const Question& question) const;

 private:
  // Of cells whose exchanges take the same patterns the families are the same.
  struct CellKind {
    bool staged, exchanges;
    std::vector<std::string> patterns;
    auto operator<=>(const CellKind&) const = default;
  };
  std::vector<Cell> cells_;
  std::map<CellKind, std::vector<Family>> families_;
  std::vector<const std::vector<Family>*> families_of_cell_;
  std::vector<std::vector<Recomputation>> recomputations_;  // by the layers of the largest piece
};

}  // namespace trireme::search
