// The mesh of ranks. world = pp * dp * cp * tp; the experts lie over the same ranks: dp * cp * tp = edp * etp * ep. A rank
// is numbered by its indices on the dense axes and, with the same pp index, by those on the experts' axes:
// rank = sum of index(axis) * stride(axis) over either set, strides by an order of the axes, the first with stride 1. As
// Megatron-core's RankGenerator. With the default order tensor ranks are neighbours, then those that share a sequence,
// then data ranks, stages last; experts' all-to-all is among neighbours.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/axis.h"
#include "base/json.h"
#include "plan/axis_order.h"
#include "plan/group_kind.h"
#include "plan/group_place.h"

namespace trireme::plan {

struct LayoutSpec;

// Sizes and strides of all axes.
struct AxisStrides {
  std::array<int, num_axes> size{}, stride{};
  int size_of(Axis axis) const { return size[static_cast<std::size_t>(axis)]; }
  int stride_of(Axis axis) const { return stride[static_cast<std::size_t>(axis)]; }
  int index(Axis axis, int rank) const { return rank / stride_of(axis) % size_of(axis); }

  // Of dense axes only, or of the experts' only. No heap.
  GroupPlace place(Axis axis) const { return {double(size_of(axis)), double(stride_of(axis))}; }
  GroupPlace place(Axes axes) const;
};

struct Mesh {
  int pp = 1;
  int dp = 1;
  int ep = 1;  // ep * etp divides dp * cp * tp
  int cp = 1;
  int tp = 1;
  int etp = 1;
  AxisOrder order = default_order;
  AxisOrder expert_order;  // empty: follows order
  // Where the ranks are: of each host, in order of rank. Empty: all on one, or nobody knows.
  std::vector<int> ranks_of_host;
  int hosts_per_group = 0;  // hosts that share a switch, in order; 0: the fabric has no such level
  bool operator==(const Mesh&) const = default;

  int stage_ranks() const { return dp * cp * tp; }
  int world() const { return pp * stage_ranks(); }
  int edp() const { return static_cast<int>(std::max<std::int64_t>(1, stage_ranks() / (std::int64_t{1} * ep * etp))); }
  int host(int rank) const { return hosts({rank}).front(); }
  std::vector<int> hosts(const std::vector<int>& ranks) const;  // of ascending ranks: linear in these and in the hosts
  AxisOrder experts() const { return expert_order.empty() ? expert_order_of(order) : expert_order; }
  AxisStrides strides() const;
  // Whether dense layers and experts have the same stages: as many ranks of either lie before pp in their order. They do
  // where pp comes last in both.
  bool stages_agree() const;

  int pp_index(int rank) const { return strides().index(Axis::pp, rank); }
  int dp_index(int rank) const { return strides().index(Axis::dp, rank); }
  int ep_index(int rank) const { return strides().index(Axis::ep, rank); }
  int edp_index(int rank) const { return strides().index(Axis::edp, rank); }
  // Ranks with tokens of their own and the same dense parameters: a step sums their gradients and counts.
  GroupKind data_group() const { return cp > 1 ? GroupKind(Axis::dp | Axis::cp) : GroupKind(Axis::dp); }
  // The `place`th rank of a stage, ascending: with tp 1 and cp 1 the one with this dp index.
  int rank(int stage, int place) const;

  // Global ranks of the group of this kind that `rank` is in, ascending.
  std::vector<int> group(const GroupKind& kind, int rank) const;
  // All groups of a kind, by their first member: every rank creates process groups in this order.
  std::vector<std::vector<int>> groups(const GroupKind& kind) const;
};

// The layout's, with dp at least 1.
Mesh mesh_of(const LayoutSpec& layout);

// "pp 2 x dp 4", and "ep 4": with cp and tp, and with etp, where they are more than 1.
std::string dense_degrees(const Mesh& mesh);
std::string expert_degrees(const Mesh& mesh);

// Of a mesh whose stages don't agree: "with tp-cp-ep-pp-dp 2 ranks of dense layers and 8 of experts come before pp".
std::string why_stages_differ(const Mesh& mesh);

// What differs from its default only, pp, dp and ep always.
void to_json(nlohmann::json& j, const Mesh& mesh);
void from_json(const nlohmann::json& j, Mesh& mesh);

// `world` ranks, ranks_per_host on each host, fewer on the last; empty where that is one host or ranks_per_host is 0.
std::vector<int> even_hosts(int world, int ranks_per_host);

}  // namespace trireme::plan
