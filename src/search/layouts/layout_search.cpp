#include "search/layouts/layout_search.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <queue>
#include <thread>

#include "search/layouts/best_layouts.h"
#include "search/layouts/layout_tree.h"
#include "search/layouts/node_opener.h"
#include "search/layouts/share_out.h"
#include "search/layouts/why_nothing_fits.h"

namespace trireme::search {

namespace {

using Clock = std::chrono::steady_clock;

std::size_t threads_of(const SearchOptions& o) {
  return o.threads > 0 ? static_cast<std::size_t>(o.threads) : std::max(1u, std::thread::hardware_concurrency());
}

Question within_capacity(Question question, double capacity_bytes) {
  if (capacity_bytes > 0) question.target.capacity_bytes = capacity_bytes;
  return question;
}

class Search {
 public:
  Search(const Question& question, const SearchOptions& options)
      : question_(within_capacity(question, options.capacity_bytes)),
        options_(options),
        tree_(question_, threads_of(options)),
        best_(tree_.cells().size(), options.top,
              options.cut_off_s > 0 ? options.cut_off_s : std::numeric_limits<double>::infinity()) {
    for (std::size_t i = 0; i < threads_of(options); ++i)
      openers_.push_back(std::make_unique<NodeOpener>(question_, tree_, best_, shelf_));
  }

  SearchResult run() {
    result_.cells = static_cast<long long>(tree_.cells().size());
    result_.layouts = tree_.num_layouts(question_);
    bound_cells();
    if (!queue_.empty()) result_.least_bound_s = queue_.top().bound_s;
    if (!options_.bounds_only)
      while (step()) report();
    result_.best = best_.take();
    // With a cut-off there may be layouts that fit, only slower ones.
    if (result_.best.empty() && (tree_.cells().empty() || (!options_.bounds_only && options_.cut_off_s == 0))) {
      WhyNothingFits why = why_nothing_fits(question_, tree_, frugal_, shelf_);
      result_.reasons = std::move(why.reasons), result_.closest = std::move(why.closest);
    }
    result_.seconds = seconds();
    return std::move(result_);
  }

 private:
  // Work items [0, count); each writes only to places of its own.
  template <class Work>
  void parallel(std::size_t count, std::size_t chunk, const Work& work) {
    share_out(openers_.size(), count, chunk, [&](std::size_t thread, std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) work(*openers_[thread], i);
    });
  }

  void bound_cells() {
    std::vector<double> bounds(tree_.cells().size());
    parallel(bounds.size(), 64,
             [&](NodeOpener& opener, std::size_t i) { bounds[i] = opener.bound_cell_s(static_cast<int>(i)); });
    result_.bounds += static_cast<long long>(bounds.size());
    for (std::size_t i = 0; i < bounds.size(); ++i) queue_.push({.bound_s = bounds[i], .cell = static_cast<int>(i)});
  }

  // Opens the most promising nodes together: always as many, whatever the number of threads.
  bool step() {
    std::vector<TreeNode> batch;
    while (!queue_.empty() && batch.size() < batch_size) {
      const TreeNode node = queue_.top();
      if (node.bound_s > best_.cut_off_s()) break;
      queue_.pop();
      if (best_.open(node.cell, node.bound_s)) batch.push_back(node);
    }
    if (batch.empty()) return false;
    std::vector<Opened> opened(batch.size());
    parallel(batch.size(), 1, [&](NodeOpener& opener, std::size_t i) { opener.open(batch[i], opened[i]); });
    for (std::size_t i = 0; i < batch.size(); ++i) {
      Opened& o = opened[i];
      result_.bounds += o.bounds;
      frugal_.see(o.frugal.bytes, o.frugal.node);
      for (const TreeNode& n : o.nodes)
        if (best_.open(n.cell, n.bound_s)) queue_.push(n);
      if (!o.estimate) continue;
      ++result_.estimates;
      if (o.estimate->feasible) best_.keep(batch[i].cell, *o.estimate);
      if (options_.keep_all) result_.estimated.push_back(std::move(*o.estimate));
    }
    return true;
  }

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  void report() {
    const double now = seconds();
    if (!options_.progress || now < last_report_ + 1) return;
    last_report_ = now;
    options_.progress({now, result_.bounds, result_.estimates, best_.fastest_s()});
  }

  static constexpr std::size_t batch_size = 64;

  const Clock::time_point start_ = Clock::now();
  double last_report_ = 1;
  const Question question_;
  const SearchOptions options_;
  const LayoutTree tree_;
  ScheduleShelf shelf_;
  BestLayouts best_;
  std::vector<std::unique_ptr<NodeOpener>> openers_;
  std::priority_queue<TreeNode, std::vector<TreeNode>, std::greater<>> queue_;
  MostFrugal frugal_;
  SearchResult result_;
};

}  // namespace

SearchResult search_layouts(const Question& question, const SearchOptions& options) {
  return Search(question, options).run();
}

}  // namespace trireme::search
