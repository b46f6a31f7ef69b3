// Seconds of a stage's messages, on the links that its groups span.
#pragma once
#include "plan/all_to_all/pattern.h"
#include "plan/all_to_all/row_counts.h"
#include "plan/plan.h"
#include "sim/network/pattern_time.h"
#include "sim/rates/rates.h"

namespace trireme::sim {

class MessageCost {
 public:
  // Mesh and rates are kept by reference.
  MessageCost(const plan::Mesh& mesh, const Rates& rates) : mesh_(mesh), rates_(rates) {}

  // The group that a stage's first rank is in. Where the mesh knows hosts they say whether it leaves one, whatever the
  // rates' nodes are.
  GroupPlace place(const plan::GroupKind& kind, int stage) const;
  // Members of that group.
  int size(const plan::GroupKind& kind, int stage) const { return static_cast<int>(place(kind, stage).size); }

  Seconds all_reduce(const plan::GroupKind& kind, int stage, double bytes) const;
  // Between the stages' ranks at the same place in dp.
  Seconds between_stages(int stage, int peer_stage, double bytes) const;
  // An all-to-all by a pattern, with its phases, on the rates' fabric. For the flat pattern on one node a measured table
  // comes first (unless `by_links`, which prices all patterns alike).
  PatternTime all_to_all(const plan::Pattern& pattern, int stage, const plan::RowCounts& counts, double row_bytes,
                         bool by_links = false) const;

  const Rates& rates() const { return rates_; }

 private:
  GroupPlace place_of(const std::vector<int>& members) const;
  const plan::Mesh& mesh_;
  const Rates& rates_;
};

}  // namespace trireme::sim
