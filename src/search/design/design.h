// Which architecture of a budget trains fastest on a machine: the best layout of each, ranked by tokens a second.
#pragma once
#include <functional>
#include <vector>

#include "search/layouts/layout_search.h"

namespace trireme::search {

struct Candidate {
  model::ModelSpec model;
  double bound_s = 0;                // that no layout goes below
  std::optional<Estimate> best;      // none: nothing fits, or its bound is beyond the last of the best found
  std::vector<std::string> reasons;  // where nothing fits
};

// First every candidate is bounded, then those that may be among the best are searched.
struct DesignProgress {
  bool searching = false;  // the second pass
  int done = 0, all = 0;   // candidates of this pass
  double best_step_s = 0;  // 0: none yet
};

struct DesignOptions {
  int top = 5;  // candidates whose best layout is found; the others have a bound only
  int threads = 0;
  std::function<void(const DesignProgress&)> progress;  // after each candidate
};

// `question`: its model is replaced. Candidates with a layout by its step, fastest first, then the others by their
// bound. The batch is the same for all, so the fastest step is the highest throughput. Candidates are searched in the
// order of their bounds and only as far as they may still be among the best.
std::vector<Candidate> design(const Question& question, const std::vector<model::ModelSpec>& models,
                              const DesignOptions& options = {});

}  // namespace trireme::search
