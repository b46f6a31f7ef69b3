// The best layouts of a question, by branch and bound: groups of layouts are opened in the order of their coarse
// bounds, and layouts that may be among the best are estimated in full. What is never opened has a bound beyond the
// last of the best found. Nothing feasible and better is dropped. Of layouts with the same degrees and micro-batch only
// the fastest is returned, so that the runners-up differ in more than a detail; of equally fast ones the first that was
// opened. The result does not depend on the number of threads.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "search/layouts/exact.h"

namespace trireme::search {

struct Progress {
  double seconds = 0;       // since the start
  long long bounds = 0;     // computed so far, of groups and of layouts
  long long estimates = 0;  // in full
  double best_step_s = 0;   // 0: none yet
};

struct SearchOptions {
  int top = 10;                                   // layouts to return
  int threads = 0;                                // 0: all cores
  bool keep_all = false;                          // every layout that was estimated in full, feasible or not
  double capacity_bytes = 0;                      // in place of the device's memory; 0: that
  double cut_off_s = 0;                           // only layouts whose step takes at most this long; 0: all
  bool bounds_only = false;                       // stop when all degrees have their bound
  std::function<void(const Progress&)> progress;  // called about once a second
};

struct SearchResult {
  std::vector<Estimate> best;        // feasible ones, fastest first, at most `top`
  std::vector<std::string> reasons;  // why none is feasible, where none is
  std::optional<Estimate>
      closest;  // then: the layout that needs least memory, by its bound; none where rules forbid all
  std::vector<Estimate> estimated;  // with keep_all, in the order of their bounds
  double least_bound_s = 0;         // no layout's step is shorter; 0: there are none
  double layouts = 0;               // in the space: those of all cells, before schedule rules
  long long cells = 0;              // degrees and micro-batch that fit together
  long long bounds = 0, estimates = 0;
  double seconds = 0;
};

SearchResult search_layouts(const Question& question, const SearchOptions& options = {});

}  // namespace trireme::search
