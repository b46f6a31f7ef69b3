#include "search/layouts/layout_tree.h"

#include "search/layouts/share_out.h"

namespace trireme::search {

LayoutTree::LayoutTree(const Question& q, std::size_t threads) : cells_(cells_of(q)) {
  std::vector<std::vector<std::string>> patterns(cells_.size());
  share_out(threads, cells_.size(), 64, [&](std::size_t, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      sim::Setting s = q.base;
      apply(cells_[i], s);
      patterns[i] = patterns_of(q, s);
    }
  });
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    auto& of_kind = families_[{cells_[i].pp > 1, cells_[i].ep > 1, patterns[i]}];
    if (of_kind.empty()) of_kind = families_of(q, cells_[i], patterns[i]);
    families_of_cell_.push_back(&of_kind);
  }
  for (int layers = 0; layers <= q.base.model.num_layers; ++layers)
    recomputations_.push_back(recomputations_of(q, layers));
}

double LayoutTree::num_layouts(const Question& q) const {
  const int layers = q.base.model.num_layers;
  double out = 0;
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    double of_cell = 0;
    for (const Family& f : *families_of_cell_[i]) {
      const int pieces = cells_[i].pp * f.virtual_stages;
      of_cell += double(recomputations_[(layers + pieces - 1) / pieces].size());
    }
    out += of_cell * double(states_of(q, cells_[i]).size());
  }
  return out;
}

}  // namespace trireme::search
