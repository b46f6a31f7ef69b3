#include "plan/mesh.h"

#include <algorithm>

#include "base/errors.h"
#include "plan/layout_spec.h"

namespace trireme::plan {

GroupPlace AxisStrides::place(Axes axes) const {
  TRIREME_CHECK(axes.within(dense_axes) || axes.within(expert_axes), "no groups of {}", name_of(axes));
  std::array<Axis, 4> sorted{};  // by stride; an axis of one rank joins nothing
  int count = 0;
  for (int i = 0; i < num_axes; ++i) {
    const auto axis = static_cast<Axis>(i);
    if (!axes.has(axis) || size_of(axis) == 1) continue;
    int at = count++;
    for (; at > 0 && stride_of(sorted[at - 1]) > stride_of(axis); --at) sorted[at] = sorted[at - 1];
    sorted[at] = axis;
  }
  GroupPlace out;
  for (int i = 0; i < count; ++i) {
    const double size = size_of(sorted[i]), stride = stride_of(sorted[i]);
    if (i == 0) {
      out.size = size, out.stride = stride;
    } else if (out.runs == 1 && stride == out.stride * out.size) {
      out.size *= size;
    } else {
      if (out.runs == 1) out.run_stride = stride;
      out.size *= size, out.runs *= size;
    }
  }
  return out;
}

AxisStrides Mesh::strides() const {
  AxisStrides out;
  out.size = {tp, cp, dp, pp, ep, etp, edp()};
  int stride = 1;
  const auto next = [&](Axis axis) {
    out.stride[static_cast<std::size_t>(axis)] = stride;
    stride *= out.size_of(axis);
  };
  // pp is an axis of both: the dense axes have the last word.
  for (const Axis axis : experts()) next(axis);
  stride = 1;
  for (const Axis axis : order)
    if (axis != Axis::ep) next(axis);
  return out;
}

namespace {

int expert_ranks_before_pp(const Mesh& mesh, const AxisStrides& strides) {
  int ranks = 1;
  for (const Axis axis : mesh.experts()) {
    if (axis == Axis::pp) break;
    ranks *= strides.size_of(axis);
  }
  return ranks;
}

}  // namespace

bool Mesh::stages_agree() const {
  if (pp == 1) return true;
  const AxisStrides strides = this->strides();
  return expert_ranks_before_pp(*this, strides) == strides.stride_of(Axis::pp);
}

std::string why_stages_differ(const Mesh& mesh) {
  const AxisStrides strides = mesh.strides();
  return fmt::format("with {}{} {} ranks of dense layers and {} of experts come before pp, which must be as many",
                     to_text(mesh.order), mesh.expert_order.empty() ? "" : " and " + to_text(mesh.expert_order),
                     strides.stride_of(Axis::pp), expert_ranks_before_pp(mesh, strides));
}

Mesh mesh_of(const LayoutSpec& l) {
  return {.pp = l.pp, .dp = std::max(1, l.dp), .ep = l.ep, .cp = l.cp, .tp = l.tp, .etp = l.etp, .order = l.order,
          .expert_order = l.expert_order};
}

std::string dense_degrees(const Mesh& mesh) {
  std::string out = fmt::format("pp {} x dp {}", mesh.pp, mesh.dp);
  if (mesh.cp > 1) out += fmt::format(" x cp {}", mesh.cp);
  if (mesh.tp > 1) out += fmt::format(" x tp {}", mesh.tp);
  return out;
}

std::string expert_degrees(const Mesh& mesh) {
  return fmt::format("ep {}", mesh.ep) + (mesh.etp > 1 ? fmt::format(" x etp {}", mesh.etp) : "");
}

std::vector<int> Mesh::hosts(const std::vector<int>& ranks) const {
  if (ranks_of_host.empty()) return std::vector<int>(ranks.size(), 0);
  std::vector<int> out;
  out.reserve(ranks.size());
  std::size_t host = 0;
  int end = ranks_of_host.front();  // the first rank of the next host
  for (const int rank : ranks) {
    while (rank >= end) {
      TRIREME_CHECK(host + 1 < ranks_of_host.size(), "rank {} is on none of {} hosts", rank, ranks_of_host.size());
      end += ranks_of_host[++host];
    }
    out.push_back(static_cast<int>(host));
  }
  return out;
}

int Mesh::rank(int stage, int place) const {
  const int stride = strides().stride_of(Axis::pp);
  return place % stride + stage * stride + place / stride * stride * pp;
}

std::vector<int> Mesh::group(const GroupKind& kind, int rank_in) const {
  TRIREME_CHECK(rank_in >= 0 && rank_in < world(), "rank {} of {}", rank_in, world());
  const AxisStrides strides = this->strides();
  const GroupPlace place = strides.place(kind.axes);
  int first = rank_in;
  for (int i = 0; i < num_axes; ++i)
    if (const auto axis = static_cast<Axis>(i); kind.axes.has(axis)) first -= strides.index(axis, rank_in) * strides.stride_of(axis);
  std::vector<int> out;
  out.reserve(static_cast<std::size_t>(place.size));
  for (int run = 0; run < place.runs; ++run)
    for (int i = 0; i < place.run(); ++i)
      out.push_back(first + run * static_cast<int>(place.run_stride) + i * static_cast<int>(place.stride));
  if (kind.of_messages()) {
    TRIREME_CHECK(std::max(kind.from_stage, kind.to_stage) < pp, "{} of {} stages", name_of(kind), pp);
    const int stage = pp_index(rank_in), from = out[kind.from_stage], to = out[kind.to_stage];
    if (stage != kind.from_stage && stage != kind.to_stage) return {rank_in};
    return {std::min(from, to), std::max(from, to)};
  }
  if (!kind.embedding) return out;
  if (out.size() > 1 && rank_in != out.front() && rank_in != out.back()) return {rank_in};
  if (out.size() > 1) out = {out.front(), out.back()};
  return out;
}

std::vector<std::vector<int>> Mesh::groups(const GroupKind& kind) const {
  std::vector<std::vector<int>> out;
  std::vector<bool> seen(static_cast<std::size_t>(world()));
  for (int r = 0; r < world(); ++r) {
    if (seen[static_cast<std::size_t>(r)]) continue;
    out.push_back(group(kind, r));
    for (const int member : out.back()) seen[static_cast<std::size_t>(member)] = true;
  }
  return out;
}

std::vector<int> even_hosts(int world, int ranks_per_host) {
  std::vector<int> out;
  if (ranks_per_host <= 0 || ranks_per_host >= world) return out;
  for (int first = 0; first < world; first += ranks_per_host) out.push_back(std::min(ranks_per_host, world - first));
  return out;
}

}  // namespace trireme::plan
