// Bounds of what layouts can reach, without executing a schedule: no layout is faster, or needs less memory, than its
// bound says. For whole groups of layouts as well, so that most are never looked at one by one.
//
// Works of a cell's layers are priced once, for all its schedules, recomputations and states. Not thread-safe: one each
// thread. No memory is allocated once a worker has seen a setting of this size.
#pragma once
#include <array>
#include <span>
#include <vector>

#include "search/layouts/layout_space.h"
#include "search/layouts/stage_split.h"
#include "sim/estimate/step_bound.h"

namespace trireme::search {

class CoarseBounds {
 public:
  explicit CoarseBounds(const Question& question);

  // One level of the search's tree each; entering one keeps the levels above it.
  void enter_cell(const Cell& cell);
  // False where a schedule rule forbids it, or where the layers are cut as in a split that comes before it.
  bool enter_family(const Family& family);
  void enter_recomputation(const Recomputation& recomputation);
  void enter_states(const States& states) { apply(states, setting_); }
  // The layout of everything that was entered.
  const sim::Setting& setting() const { return setting_; }
  int most_layers_of_a_piece() const;

  // Of the cell: seconds that none of its layouts goes below. Every stage takes its mean share of the works, nothing is
  // computed again, nothing but the works costs time.
  double bound_cell_s();
  // Of the family: bytes that none of its layouts with this recomputation goes below. Another recomputation and other
  // states have to be entered afterwards.
  double bound_family_bytes(const Recomputation& recomputation);
  // Of the layout, once its states are entered.
  double bound_s();
  double bound_bytes() const;
  // As bound_s(), with what swapped activations' copies add where they take longer than the compute beside them.
  double bound_s_with_copies();
  // Bytes that no layout goes below whose states are these or hold more: fewer things swapped, or sharded less far.
  double bound_frugal_bytes() const;

 private:
  struct Exchange {  // how the experts' messages travel: what changes a cell's works
    std::string all_to_all;
    bool overlap = false;
    bool ready = false;
    std::vector<sim::OperatorList> works;  // of each kind
    std::vector<sim::LayerTime> times;     // nothing computed again
  };
  const Exchange& price_exchange(const std::string& all_to_all, bool overlap);
  void find_kinds();
  int kind_of(int layer) const;
  const std::vector<sim::PieceTime>& price_pieces();

  const Question& question_;
  sim::Setting setting_;
  model::Kernels frugal_;        // the target's, without what buffers of sharding and swapping hold
  States frugal_states_;         // that shard and swap most
  std::vector<int> layer_kind_;  // by layer, MTP layers included: index into kinds_
  std::vector<int> kinds_;       // an example layer of each
  std::vector<Exchange> exchanges_;
  sim::EndTimes ends_;
  sim::OperatorList end_works_;
  const Exchange* exchange_ = nullptr;  // the family's
  std::vector<double> layer_s_;
  sim::StepShape shape_;
  std::vector<sim::LayerTime> kind_times_;
  struct Pieces {
    bool ready = false;
    std::vector<sim::PieceTime> times;
  };
  std::array<Pieces, 2> pieces_;  // without and with sharded parameters' traffic
  std::vector<sim::PieceTime> copying_;
  std::vector<double> host_bytes_;
};

}  // namespace trireme::search
