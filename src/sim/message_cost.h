// Seconds of a stage's messages on the links that its groups span.
#pragma once
#include "plan/all_to_all/pattern.h"
#include "plan/all_to_all/row_counts.h"
#include "plan/plan.h"
#include "platform/network_curves.h"
#include "sim/network/pattern_time.h"

namespace trireme::sim {

class MessageCost {
 public:
  // ranks_per_host: where the mesh knows no hosts; 0: all ranks on one. Mesh and network are kept by reference.
  MessageCost(const plan::Mesh& mesh, const platform::NetworkCurves& network, int ranks_per_host);

  // The slowest level between members of the group that a stage's first rank is in.
  platform::Level level(const plan::GroupKind& kind, int stage) const;
  // Members of that group.
  int size(const plan::GroupKind& kind, int stage) const;

  Seconds all_reduce(const plan::GroupKind& kind, int stage, double bytes) const;
  // Between the stages' ranks at the same place in dp.
  Seconds between_stages(int stage, int peer_stage, double bytes) const;
  // An all-to-all by a pattern, with its phases. For the flat pattern on one host a measured table comes first (unless
  // `by_links`, which prices all patterns alike);
  // else pattern_time where the platform has links measured while all talk; else phases in their order, each as long as its
  // busiest member, whose messages on one level run one after another, levels at the same time.
  PatternTime all_to_all(const plan::Pattern& pattern, int stage, const plan::RowCounts& counts, double row_bytes,
                         bool by_links = false) const;
  // Every block of `block_bytes`.
  Seconds all_to_all(const plan::Pattern& pattern, int stage, double block_bytes) const;

 private:
  int host(int rank) const {
    if (!mesh_.ranks_of_host.empty()) return mesh_.host(rank);
    return ranks_per_host_ > 0 ? rank / ranks_per_host_ : 0;
  }
  const plan::Mesh& mesh_;
  const platform::NetworkCurves& network_;
  int ranks_per_host_;
};

}  // namespace trireme::sim
