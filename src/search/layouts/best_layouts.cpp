#include "search/layouts/best_layouts.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace trireme::search {

BestLayouts::BestLayouts(std::size_t num_cells, int top, double cut_off_s)
    : top_(static_cast<std::size_t>(top)),
      cut_off_s_(cut_off_s),
      of_cell_s_(num_cells, std::numeric_limits<double>::infinity()) {}

double BestLayouts::fastest_s() const {
  return kept_.empty() ? 0 : kept_.front().estimate.time.step_s;
}

void BestLayouts::keep(int cell, const Estimate& e) {
  const double step_s = e.time.step_s;
  if (!open(cell, step_s)) return;
  of_cell_s_[cell] = step_s;
  std::erase_if(kept_, [&](const Kept& k) { return k.cell == cell; });
  const auto slower = [&](const Kept& k) { return std::tie(k.estimate.time.step_s, k.cell) > std::tie(step_s, cell); };
  kept_.insert(std::find_if(kept_.begin(), kept_.end(), slower), {cell, e});
  if (kept_.size() > top_) kept_.pop_back();
  if (kept_.size() == top_) cut_off_s_ = std::min(cut_off_s_, kept_.back().estimate.time.step_s);
}

std::vector<Estimate> BestLayouts::take() {
  std::vector<Estimate> out;
  for (Kept& k : kept_) out.push_back(std::move(k.estimate));
  kept_.clear();
  return out;
}

}  // namespace trireme::search
