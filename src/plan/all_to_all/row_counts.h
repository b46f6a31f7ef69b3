// How many rows a pattern's parcels have: bound to a pattern for prices and for exact counts of bytes. Always in the
// dispatch direction: of tokens of `source` for `destinations`.
#pragma once
#include <memory>
#include <vector>

#include "plan/all_to_all/node_shape.h"
#include "plan/all_to_all/pattern.h"

namespace trireme::plan {

class RowCounts {
 public:
  virtual ~RowCounts() = default;
  virtual double each(const Members& sources, const Members& destinations) const = 0;  // rows, one a slot
  virtual double once(int source, const Members& destinations) const = 0;              // tokens with a slot there
  virtual double all(int source) const = 0;                                            // tokens
};

// Rows of a parcel of either flow.
double rows_of(const Parcel& parcel, Flow flow, const RowCounts& counts);

// Expected counts: every member has `tokens`, each routed to `top_k` different ones of `experts`, all sets equally
// likely, experts spread evenly over the members. once: tokens (1 - C(E - E_R, k) / C(E, k)), E_R experts in the set.
// Group-limited routing: experts lie in `groups` equal groups in order, a token takes its own from `chosen_groups` of them,
// all sets of groups equally likely (DeepSeek-V3, arXiv 2412.19437, sec. 2.1.2).
class UniformRouting final : public RowCounts {
 public:
  UniformRouting(int members, double tokens, int experts, int top_k, int groups = 1, int chosen_groups = 1);
  double each(const Members& sources, const Members& destinations) const override;
  double once(int source, const Members& destinations) const override;
  double all(int) const override { return tokens_; }
  int top_k() const { return top_k_; }

 private:
  double tokens_, each_;
  int top_k_;
  std::vector<double> hit_;  // by number of members in a set
};

// Counts of real tokens. slots[s][t]: the members that token t of member s has rows for, one a slot.
class TokenRoutes final : public RowCounts {
 public:
  using Slots = std::vector<std::vector<std::vector<int>>>;
  TokenRoutes(const NodeShape& shape, const Slots& slots);
  double each(const Members& sources, const Members& destinations) const override;
  // Of one member, a whole node, or all: a bug otherwise.
  double once(int source, const Members& destinations) const override;
  double all(int source) const override { return tokens_[static_cast<std::size_t>(source)]; }

 private:
  std::size_t at(int source, int destination) const;
  NodeShape shape_;
  std::vector<double> tokens_, each_, once_member_, once_node_;
};

// Blocks' rows alone, counts[s * size + d]. Every slot is a token of its own: once and all are what each is.
class BlockTable final : public RowCounts {
 public:
  BlockTable(int size, std::vector<double> counts);
  double each(const Members& sources, const Members& destinations) const override;
  double once(int source, const Members& destinations) const override;
  double all(int source) const override;

 private:
  int size_;
  std::vector<double> counts_;
};

}  // namespace trireme::plan
