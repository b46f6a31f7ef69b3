// The fastest layouts that a search has found so far, one a cell, and the time beyond which a layout can't be among them.
#pragma once
#include <vector>

#include "search/layouts/exact.h"

namespace trireme::search {

class BestLayouts {
 public:
  // At most `top` layouts, none slower than `cut_off_s`.
  BestLayouts(std::size_t num_cells, int top, double cut_off_s);

  // Whether a layout of the cell that takes this long, or longer, could still be kept.
  bool open(int cell, double at_least_s) const { return at_least_s <= cut_off_s_ && at_least_s < of_cell_s_[cell]; }
  double cut_off_s() const { return cut_off_s_; }
  double fastest_s() const;  // 0: none yet
  void keep(int cell, const Estimate& estimate);
  std::vector<Estimate> take();  // fastest first; equally fast ones by cell

 private:
  struct Kept {
    int cell = 0;
    Estimate estimate;
  };
  std::size_t top_;
  double cut_off_s_;
  std::vector<double> of_cell_s_;
  std::vector<Kept> kept_;
};

}  // namespace trireme::search
