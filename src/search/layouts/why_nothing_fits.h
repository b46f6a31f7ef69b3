// Why a question has no answer.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "search/layouts/exact.h"
#include "search/layouts/layout_tree.h"
#include "search/layouts/tree_node.h"

namespace trireme::search {

struct WhyNothingFits {
  std::vector<std::string> reasons;
  std::optional<Estimate> closest;  // the layout that needs least memory, by its bound; none where rules forbid all
};

// `frugal`: of all that the search looked at.
WhyNothingFits why_nothing_fits(const Question& question, const LayoutTree& tree, const MostFrugal& frugal,
                                ScheduleShelf& shelf);

}  // namespace trireme::search
