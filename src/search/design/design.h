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

struct DesignProgress {
  int done = 0, all = 0;
  double best_step_s = 0;
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
