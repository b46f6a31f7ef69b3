#include "search/design/design.h"

#include <algorithm>

namespace trireme::search {

std::vector<Candidate> design(const Question& question, const std::vector<model::ModelSpec>& models,
                              const DesignOptions& options) {
  std::vector<Candidate> candidates;
  Question q = question;
  DesignProgress progress{.all = static_cast<int>(models.size())};
  const auto one_done = [&] {
    ++progress.done;
    if (options.progress) options.progress(progress);
  };
  for (const model::ModelSpec& m : models) {
    q.base.model = m;
    const SearchResult bounded = search_layouts(q, {.top = 1, .threads = options.threads, .bounds_only = true});
    candidates.push_back({.model = m, .bound_s = bounded.least_bound_s, .best = {}, .reasons = bounded.reasons});
    one_done();
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.bound_s < b.bound_s; });
  progress.searching = true, progress.done = 0;
  std::vector<double> found;  // steps of the best so far, ascending
  for (Candidate& c : candidates) {
    const double cut_off = static_cast<int>(found.size()) >= options.top ? found[options.top - 1] : 0;
    if (c.reasons.empty() && (cut_off == 0 || c.bound_s <= cut_off)) {
      q.base.model = c.model;
      SearchResult r = search_layouts(q, {.top = 1, .threads = options.threads, .cut_off_s = cut_off});
      if (!r.best.empty()) {
        c.best = std::move(r.best[0]);
        found.insert(std::upper_bound(found.begin(), found.end(), c.best->time.step_s), c.best->time.step_s);
        progress.best_step_s = found[0];
      } else if (cut_off == 0) {
        c.reasons = std::move(r.reasons);
      }
    }
    one_done();
  }
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    if (a.best.has_value() != b.best.has_value()) return a.best.has_value();
    return a.best ? a.best->time.step_s < b.best->time.step_s : a.bound_s < b.bound_s;
  });
  return candidates;
}

}  // namespace trireme::search
