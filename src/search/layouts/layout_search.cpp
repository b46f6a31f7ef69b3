#include "search/layouts/layout_search.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <map>
#include <queue>
#include <thread>
#include <tuple>

#include <fmt/format.h>

#include "search/layouts/best_layouts.h"
#include "search/layouts/coarse.h"
#include "search/layouts/fallbacks.h"
#include "search/layouts/layout_rules.h"
#include "search/layouts/share_out.h"

namespace trireme::search {

namespace {

using Clock = std::chrono::steady_clock;
constexpr double infinity = std::numeric_limits<double>::infinity();

// A group of layouts, down to a single one: each index but the first may be open (-1).
struct Node {
  double bound_s = 0;
  int cell = 0;
  int family = -1, recomputation = -1, states = -1;
  auto order() const { return std::tie(bound_s, cell, family, recomputation, states); }
  bool operator>(const Node& o) const { return order() > o.order(); }
};

// Which layout needs least memory, for questions that nothing answers.
struct Frugal {
  double bytes = infinity;
  Node node;
  void see(double other_bytes, const Node& other) {
    if (std::tie(other_bytes, other.cell, other.family, other.recomputation, other.states) <
        std::tie(bytes, node.cell, node.family, node.recomputation, node.states))
      bytes = other_bytes, node = other;
  }
};

struct Opened {
  std::vector<Node> nodes;
  std::optional<Estimate> estimate;
  Frugal frugal;
  long long bounds = 0;
};

struct Worker {
  explicit Worker(const Question& q) : bounds(q) {}
  CoarseBounds bounds;
  sim::GridWorkspace workspace;
};

// Rules that the given degrees break, with the others at their smallest.
std::vector<std::string> why_no_cell(const Question& q) {
  sim::Setting s = q.base;
  for (const auto& [key, degree] : {std::pair<const char*, int*>{"layout.pp", &s.layout.pp},
                                    {"layout.tp", &s.layout.tp},
                                    {"layout.cp", &s.layout.cp},
                                    {"layout.ep", &s.layout.ep},
                                    {"layout.etp", &s.layout.etp}})
    if (!q.is_given(key)) *degree = 1;
  if (!q.is_given("layout.dp")) s.layout.dp = data_degree(s);
  if (!q.is_given("batch.micro_batch")) s.batch.micro_batch = 1;
  std::vector<std::string> reasons = broken_rules(s);
  if (reasons.empty())
    reasons = {fmt::format("no combination of degrees fits {} devices, a global batch of {} sequences and what is given",
                           s.num_devices, s.batch.global_batch)};
  return reasons;
}

class Search {
 public:
  Search(const Question& question, const SearchOptions& options)
      : question_(question), options_(options), start_(Clock::now()) {
    if (options.capacity_bytes > 0) question_.target.capacity_bytes = options.capacity_bytes;
    const int threads =
        options.threads > 0 ? options.threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    for (int i = 0; i < threads; ++i) workers_.push_back(std::make_unique<Worker>(question_));
  }

  SearchResult run() {
    cells_ = cells_of(question_);
    result_.cells = static_cast<long long>(cells_.size());
    find_families();
    for (int n = 0; n <= question_.base.model.num_layers; ++n)
      recomputations_.push_back(recomputations_of(question_, n));
    best_ = BestLayouts(cells_.size(), options_.top, options_.cut_off_s > 0 ? options_.cut_off_s : infinity);
    bound_cells();
    if (!queue_.empty()) result_.least_bound_s = queue_.top().bound_s;
    if (!options_.bounds_only)
      while (step()) report();
    finish();
    return std::move(result_);
  }

 private:
  // Work items [0, count); each writes only to places of its own.
  template <class Work>
  void parallel(std::size_t count, std::size_t chunk, const Work& work) {
    share_out(workers_.size(), count, chunk, [&](std::size_t thread, std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) work(*workers_[thread], i);
    });
  }

  const std::vector<Family>& families(int cell) const { return *families_of_cell_[cell]; }

  // Of cells whose exchanges take the same patterns they are the same.
  void find_families() {
    std::vector<std::vector<std::string>> patterns(cells_.size());
    parallel(cells_.size(), 64, [&](Worker&, std::size_t i) {
      sim::Setting s = question_.base;
      apply(cells_[i], s);
      patterns[i] = patterns_of(question_, s);
    });
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      auto& of_kind = families_[{cells_[i].pp > 1, cells_[i].ep > 1, patterns[i]}];
      if (of_kind.empty()) of_kind = families_of(question_, cells_[i], patterns[i]);
      families_of_cell_.push_back(&of_kind);
    }
  }

  void bound_cells() {
    std::vector<double> bounds(cells_.size());
    parallel(cells_.size(), 64, [&](Worker& w, std::size_t i) {
      w.bounds.enter(cells_[i]);
      bounds[i] = w.bounds.cell_s();
    });
    result_.bounds += static_cast<long long>(cells_.size());
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      queue_.push({.bound_s = bounds[i], .cell = static_cast<int>(i)});
      const Cell& c = cells_[i];
      double of_cell = 0;
      for (const Family& f : families(static_cast<int>(i))) {
        const int pieces = c.pp * f.virtual_stages, layers = question_.base.model.num_layers;
        of_cell += double(recomputations_[(layers + pieces - 1) / pieces].size());
      }
      result_.layouts += of_cell * double(states_of(question_, c).size());
    }
  }

  // Opens the most promising nodes together: always as many, whatever the number of threads.
  bool step() {
    std::vector<Node> batch;
    while (!queue_.empty() && batch.size() < batch_size) {
      const Node node = queue_.top();
      if (node.bound_s > best_.cut_off_s()) break;
      queue_.pop();
      if (best_.open(node.cell, node.bound_s)) batch.push_back(node);
    }
    if (batch.empty()) return false;
    std::vector<Opened> opened(batch.size());
    parallel(batch.size(), 1, [&](Worker& w, std::size_t i) { open(w, batch[i], opened[i]); });
    for (std::size_t i = 0; i < batch.size(); ++i) {
      Opened& o = opened[i];
      result_.bounds += o.bounds;
      frugal_.see(o.frugal.bytes, o.frugal.node);
      for (const Node& n : o.nodes)
        if (best_.open(n.cell, n.bound_s)) queue_.push(n);
      if (!o.estimate) continue;
      ++result_.estimates;
      if (o.estimate->feasible) best_.keep(batch[i].cell, *o.estimate);
      if (options_.keep_all) result_.estimated.push_back(std::move(*o.estimate));
    }
    return true;
  }

  void open(Worker& w, const Node& node, Opened& out) {
    const Cell& cell = cells_[node.cell];
    CoarseBounds& b = w.bounds;
    b.enter(cell);
    if (node.family < 0) return open_cell(b, node, out);
    b.enter(families(node.cell)[node.family]);
    if (node.recomputation < 0) return open_family(b, node, out);
    const Recomputation& r = recomputations_[b.most_layers_of_a_piece()][node.recomputation];
    b.enter(r);
    const std::vector<States> states = states_of(question_, cell);
    const std::vector<int> fallback = fallbacks_of(states);
    if (node.states < 0) {
      for (std::size_t s = 0; s < states.size(); ++s)
        if (fallback[s] < 0) push_leaf(b, node, states, fallback, s, out);
    } else if (!open_leaf(w, node, states[node.states], out) && fallback[node.states] < 0) {
      push_fallbacks(b, node, states, fallback, node.states, out);
    }
  }

  // One that cannot fit is passed over for its fallbacks at once.
  void push_leaf(CoarseBounds& b, const Node& group, const std::vector<States>& states,
                 const std::vector<int>& fallback, std::size_t at, Opened& out) {
    Node leaf = group;
    leaf.states = static_cast<int>(at), leaf.bound_s = std::max(group.bound_s, b.seconds(states[at]));
    ++out.bounds;
    if (!best_.open(leaf.cell, leaf.bound_s)) return;
    const double bytes = b.bytes(states[at]);
    ++out.bounds;
    if (bytes <= question_.target.capacity_bytes) return out.nodes.push_back(leaf);
    out.frugal.see(bytes, leaf);
    if (fallback[at] < 0) push_fallbacks(b, group, states, fallback, at, out);
  }

  void push_fallbacks(CoarseBounds& b, const Node& group, const std::vector<States>& states,
                      const std::vector<int>& fallback, std::size_t of, Opened& out) {
    // Together first: of all of them the one that shards and swaps most.
    std::size_t last = of;
    for (std::size_t other = of + 1; other < states.size(); ++other)
      if (fallback[other] == static_cast<int>(of)) last = other;
    if (last == of) return;
    ++out.bounds;
    if (b.frugal_bytes(states[last]) > question_.target.capacity_bytes) return;
    for (std::size_t other = of + 1; other <= last; ++other)
      if (fallback[other] == static_cast<int>(of)) push_leaf(b, group, states, fallback, other, out);
  }

  // True where the layout fits, or is out of the question.
  bool open_leaf(Worker& w, const Node& node, const States& s, Opened& out) {
    CoarseBounds& b = w.bounds;
    if (!holds(schedule_rules(), b.setting(s))) return true;
    if (s.swap.has(plan::Swap::activations) && b.seconds_with_copies(s) > best_.cut_off_s()) return false;
    out.estimate = estimate(question_, b.setting(s), shelf_, w.workspace);
    if (!out.estimate->feasible) out.frugal.see(out.estimate->needed_bytes, node);
    return out.estimate->feasible;
  }

  // Its families, each bounded by the fastest of its states with nothing computed again, where the most frugal
  // recomputation fits.
  void open_cell(CoarseBounds& b, Node node, Opened& out) {
    const std::vector<States> states = states_of(question_, cells_[node.cell]);
    const double at_least = node.bound_s;
    const auto& all = families(node.cell);
    for (std::size_t f = 0; f < all.size(); ++f) {
      if (!b.enter(all[f])) continue;
      node.family = static_cast<int>(f);
      const auto& recomputations = recomputations_[b.most_layers_of_a_piece()];
      // The last but for those of some layers only: all of a layer is computed again.
      Node frugal = node;
      for (std::size_t r = 0; r < recomputations.size(); ++r)
        if (recomputations[r].layers == 0) frugal.recomputation = static_cast<int>(r);
      if (frugal.recomputation < 0) frugal.recomputation = 0;
      node.bound_s = std::max(at_least, fastest(b, {}, states, out));  // with nothing computed again
      if (node.bound_s <= best_.cut_off_s() && may_fit(b, recomputations[frugal.recomputation], frugal, out))
        out.nodes.push_back(node);
    }
  }

  // Its recomputations, each bounded by the fastest of its states, where the most frugal of them fits.
  void open_family(CoarseBounds& b, Node node, Opened& out) {
    const auto& recomputations = recomputations_[b.most_layers_of_a_piece()];
    const std::vector<States> states = states_of(question_, cells_[node.cell]);
    const double at_least = node.bound_s;
    for (std::size_t r = 0; r < recomputations.size(); ++r) {
      node.recomputation = static_cast<int>(r);
      node.bound_s = std::max(at_least, fastest(b, recomputations[r], states, out));
      if (best_.open(node.cell, node.bound_s) && may_fit(b, recomputations[r], node, out))
        out.nodes.push_back(node);
    }
  }

  bool may_fit(CoarseBounds& b, const Recomputation& r, const Node& node, Opened& out) {
    const double bytes = b.frugal_bytes(r);
    ++out.bounds;
    if (bytes <= question_.target.capacity_bytes) return true;
    out.frugal.see(bytes, node);
    return false;
  }

  // Swapping never makes a step shorter, nor does exposing what could overlap: only where these are given do they
  // count.
  double fastest(CoarseBounds& b, const Recomputation& r, const std::vector<States>& states, Opened& out) {
    b.enter(r);
    const States& first = states.front();
    double best = infinity;
    for (const States& s : states) {
      if (s.swap != first.swap || s.overlap_gradients != first.overlap_gradients ||
          s.overlap_parameters != first.overlap_parameters)
        continue;
      best = std::min(best, b.seconds(s));
      ++out.bounds;
    }
    return best;
  }

  void report() {
    const double now = std::chrono::duration<double>(Clock::now() - start_).count();
    if (!options_.progress || now < last_report_ + 1) return;
    last_report_ = now;
    options_.progress({now, result_.bounds, result_.estimates, best_.fastest_s()});
  }

  void finish() {
    result_.best = best_.take();
    // With a cut-off there may be layouts that fit, only slower ones.
    if (result_.best.empty() && (cells_.empty() || (!options_.bounds_only && options_.cut_off_s == 0)))
      explain_failure();
    result_.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  }

  void explain_failure() {
    if (cells_.empty()) {
      result_.reasons = why_no_cell(question_);
      return;
    }
    if (frugal_.bytes == infinity) {
      // Every schedule broke a rule: the reasons of the first.
      CoarseBounds& b = workers_[0]->bounds;
      b.enter(cells_[0]);
      if (!families(0).empty()) b.enter(families(0)[0]);
      result_.reasons = broken_rules(b.setting());
      if (result_.reasons.empty()) result_.reasons = {"no schedule fits the degrees, the batch and what is given"};
      return;
    }
    const Node& node = frugal_.node;
    CoarseBounds& b = workers_[0]->bounds;
    const Cell& cell = cells_[node.cell];
    b.enter(cell);
    b.enter(families(node.cell)[node.family]);
    b.enter(recomputations_[b.most_layers_of_a_piece()][node.recomputation]);
    const std::vector<States> states = states_of(question_, cell);
    std::size_t least = node.states >= 0 ? node.states : 0;
    if (node.states < 0)
      for (std::size_t s = 1; s < states.size(); ++s)
        if (b.bytes(states[s]) < b.bytes(states[least])) least = s;
    if (!holds(schedule_rules(), b.setting(states[least]))) {
      result_.reasons = broken_rules(b.setting());
      return;
    }
    result_.closest = estimate(question_, b.setting(states[least]), shelf_, workers_[0]->workspace, true);
    result_.reasons = result_.closest->reasons;
    if (result_.reasons.empty())
      result_.reasons = {fmt::format("the most frugal layout needs {:.1f} GB of {:.1f}",
                                     result_.closest->needed_bytes / 1e9, question_.target.capacity_bytes / 1e9)};
  }

  static constexpr std::size_t batch_size = 64;

  Question question_;
  SearchOptions options_;
  Clock::time_point start_;
  double last_report_ = 1;
  std::vector<std::unique_ptr<Worker>> workers_;
  ScheduleShelf shelf_;
  std::vector<Cell> cells_;
  struct CellKind {
    bool staged, exchanges;
    std::vector<std::string> patterns;
    auto operator<=>(const CellKind&) const = default;
  };
  std::map<CellKind, std::vector<Family>> families_;
  std::vector<const std::vector<Family>*> families_of_cell_;
  std::vector<std::vector<Recomputation>> recomputations_;      // by the layers of the largest piece
  std::priority_queue<Node, std::vector<Node>, std::greater<>> queue_;
  BestLayouts best_{0, 0, 0};  // of the cells, once these are known
  Frugal frugal_;
  SearchResult result_;
};

}  // namespace

SearchResult search_layouts(const Question& question, const SearchOptions& options) {
  return Search(question, options).run();
}

}  // namespace trireme::search
