#include "sim/estimate/piece_time.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/errors.h"
#include "model/parameter_parts.h"
#include "plan/pieces.h"
#include "sim/estimate/collective_time.h"
#include "sim/estimate/newton_schulz.h"

namespace trireme::sim {

namespace {

int kind_of(const Setting& s, StepShape& shape, int layer, bool recomputed) {
  const model::ModelSpec& m = s.model;
  for (std::size_t i = 0; i < shape.kinds.size(); ++i) {
    const LayerKind& k = shape.kinds[i];
    if (k.recomputed == recomputed && m.mixer(k.layer) == m.mixer(layer) &&
        m.feed_forward(k.layer) == m.feed_forward(layer) && m.window(k.layer) == m.window(layer) &&
        m.compression(k.layer) == m.compression(layer))
      return static_cast<int>(i);
  }
  TRIREME_CHECK(shape.kinds.size() < max_layer_kinds, "more than {} kinds of layers", max_layer_kinds);
  const auto parts = model::layer_parameters(m, layer, {.tp = s.layout.tp, .ep = s.layout.ep, .etp = s.layout.etp});
  shape.kinds.push_back({.layer = layer,
                         .recomputed = recomputed,
                         .moe = m.is_moe(layer),
                         .dense = double(parts.total() - parts.routed_experts),
                         .experts = double(parts.routed_experts)});
  return static_cast<int>(shape.kinds.size()) - 1;
}

// Ranks with the same parameters: of dense layers, and of experts.
struct DataGroups {
  GroupPlace dense, experts;
  explicit DataGroups(const plan::LayoutSpec& l) : DataGroups(plan::mesh_of(l).strides()) {}
  explicit DataGroups(const plan::AxisStrides& strides)
      : dense(strides.place(Axis::dp | Axis::cp)), experts(strides.place(Axis::edp)) {}
};

// Those that share one set of shards.
GroupPlace shard_group(const GroupPlace& all, int degree) {
  return degree > 0 ? all.first(degree) : all;
}

// A gather (or scatter) of dense and expert parameters over the ranks that share them.
double shard_s(const Setting& s, const DataGroups& groups, const Rates& rates, double dense, double experts, double element) {
  const plan::LayoutSpec& l = s.layout;
  double seconds = rates.collective_s(CollectiveKind::all_gather, shard_group(groups.dense, l.shard_degree), dense * element);
  if (experts > 0)
    seconds += rates.collective_s(CollectiveKind::all_gather, shard_group(groups.experts, l.expert_shard_degree),
                                  experts * element);
  return seconds;
}

// A matmul that no side of it slows down.
Operator large_matmul(double flops) {
  constexpr double side = 1e15;
  return {.what = "", .kind = OperatorKind::matmul, .m = side, .n = side, .k = side, .flops = flops};
}

// Sums of each shard over the sets of shards.
double replicas_s(const Rates& rates, const GroupPlace& all, int degree, double bytes) {
  if (degree <= 0 || degree >= all.size) return 0;
  return rates.collective_s(CollectiveKind::all_reduce, all.every(degree), bytes / degree);
}

}  // namespace

bool joins(const plan::LayoutSpec& l) {
  return l.overlap.experts && (l.schedule == "merged_1f1b" || l.schedule == "dualpipe_v");
}

double joined_compute_s(const Setting& s, const PieceTime& forward, const PieceTime& backward, const Rates& rates) {
  if (!joins(s.layout)) return forward.forward_slot_s() + backward.backward_slot_s();
  PassTime b = backward.input;
  b += backward.weight;
  return pair_s(forward.forward, b, rates);
}

double joined_s(const Setting& s, const PieceTime& forward, const PieceTime& backward, const Rates& rates) {
  return std::max({joined_compute_s(s, forward, backward, rates), forward.copy_s, backward.copy_s});
}

void shape_step(const Setting& s, StepShape& out) {
  const plan::LayoutSpec& l = s.layout;
  plan::check_stage_layers(l, s.model.num_layers);
  const plan::PieceSizes sizes(l, s.model.num_layers);
  const int count = sizes.num_pieces(), layers = s.model.num_layers;
  out.kinds.clear();
  out.pieces.assign(count, {});
  out.mtp_kind = -1;
  const auto ends = [&](bool embed, bool head) {
    return double(model::parameters_of(s.model,
                                       {.first_layer = 0, .num_layers = 0, .embed = embed, .head = head, .mtp = false},
                                       {.tp = l.tp, .ep = l.ep, .etp = l.etp})
                      .total());
  };
  int layer = 0;
  for (int p = 0; p < count; ++p) {
    PieceShape& piece = out.pieces[p];
    const int here = sizes[p];
    piece.embed = p == 0, piece.head = p + 1 == count;
    for (int i = 0; i < here; ++i, ++layer) {
      const bool recomputed = !l.recompute.empty() && (l.recompute_layers == 0 || i < l.recompute_layers);
      const int kind = kind_of(s, out, layer, recomputed);
      ++piece.layers[kind];
      piece.dense += out.kinds[kind].dense, piece.experts += out.kinds[kind].experts;
    }
    if (piece.embed || piece.head) piece.dense += ends(piece.embed, piece.head);
    if (piece.head && s.model.mtp_depth > 0) {
      out.mtp_kind = kind_of(s, out, layers, !l.recompute.empty());
      const LayerKind& k = out.kinds[out.mtp_kind];
      const double projection = model::mtp_projection_parameters(s.model, {.tp = l.tp});
      piece.dense += s.model.mtp_blocks() * (k.dense + projection), piece.experts += s.model.mtp_blocks() * k.experts;
    }
  }
}

PieceTime piece_time(const Setting& s, const Rates& rates, const StepShape& shape, const PieceShape& piece,
                     std::span<const LayerTime> kinds, const EndTimes& ends, double host_bytes) {
  PieceTime out;
  const auto add = [&](const LayerTime& t, double count) {
    out.forward += t.pass[0] * count;
    out.input += t.pass[1] * count;
    out.input += t.recompute * count;
    if (!s.execution.frozen_weights) out.weight += t.pass[2] * count;
  };
  for (std::size_t k = 0; k < kinds.size(); ++k)
    if (piece.layers[k] > 0) add(kinds[k], piece.layers[k]);
  if (piece.embed) add(ends.embed, 1);
  if (piece.head) {
    add(ends.head, 1 + s.model.mtp_depth);
    if (shape.mtp_kind >= 0) {
      add(kinds[shape.mtp_kind], s.model.mtp_depth);
      add(ends.mtp_projection, s.model.mtp_depth);
    }
  }
  const plan::LayoutSpec& l = s.layout;
  if (l.sharding == plan::Sharding::parameters) {
    // Fully sharded parameters travel before each use and their gradients after, once a micro-batch.
    const DataGroups groups(l);
    const double gather = shard_s(s, groups, rates, piece.dense, piece.experts, s.precision.gather_bytes);
    (l.overlap.parameters ? out.forward.beside : out.forward.collectives) += gather;
    (l.overlap.parameters ? out.input.beside : out.input.collectives) += gather;
    (l.overlap.gradients ? out.input.beside : out.input.collectives) +=
        shard_s(s, groups, rates, piece.dense, piece.experts, s.precision.reduce_bytes);
  }
  const auto wall = joins(l) ? alone_s : static_cast<double (*)(const PassTime&, const Rates&)>(wall_s);
  out.forward_s = wall(out.forward, rates);
  // Hiding is judged over both halves of the backward, which a schedule that joins them runs as one.
  PassTime backward = out.input;
  backward += out.weight;
  out.weight_s = wall(out.weight, rates);
  out.input_s = std::max(wall(backward, rates) - out.weight_s, 0.0);
  if (host_bytes > 0 && rates.fixed().host_bytes_per_s > 0) out.copy_s = host_bytes / rates.fixed().host_bytes_per_s;
  return out;
}

UpdateTime update_time(const Setting& s, const Rates& rates, double dense, double experts) {
  UpdateTime out;
  if (s.execution.frozen_weights) return out;
  const plan::LayoutSpec& l = s.layout;
  const Precision& p = s.precision;
  const DataGroups groups(l);
  if (l.sharding != plan::Sharding::parameters) {
    // A ring all-reduce is a scatter and a gather of what is reduced.
    out.reduce_s = shard_s(s, groups, rates, dense, experts, p.reduce_bytes) * (l.sharding == plan::Sharding::none ? 2 : 1);
    if (l.sharding != plan::Sharding::none) out.gather_s = shard_s(s, groups, rates, dense, experts, p.gather_bytes);
  }
  if (l.sharding != plan::Sharding::none)
    out.reduce_s +=
        replicas_s(rates, groups.dense, l.shard_degree, dense * p.reduce_bytes) +
        replicas_s(rates, groups.experts, l.expert_shard_degree, experts * p.reduce_bytes);
  const bool sharded = l.sharding != plan::Sharding::none;
  const double of_data = sharded ? shard_group(groups.dense, l.shard_degree).size : 1;
  const double of_experts = sharded ? shard_group(groups.experts, l.expert_shard_degree).size : 1;
  const double elements = dense / of_data + experts / of_experts;
  // Reads gradient, master and moments; writes master, moments and the parameter. Norm and clipping read gradients
  // twice more.
  const double bytes = 3 * p.gradient_bytes + 2 * p.master_bytes + 2 * p.moment_bytes + p.weight_bytes;
  out.optimizer_s = rates.memory_s(platform::MemoryUse::optimizer, elements * bytes);
  if (l.matrix_owners) {
    const double flops = busiest_owner_flops(s), given = s.execution.newton_schulz_flops_per_s;
    out.optimizer_s += given > 0 ? flops / given : rates.operator_s(large_matmul(flops));
  }
  if (l.swap.has(plan::Swap::optimizer) && rates.fixed().host_bytes_per_s > 0)
    out.states_s = elements * (p.master_bytes + p.moment_bytes) / rates.fixed().host_bytes_per_s;
  return out;
}

UpdateTime exposed(const Setting& s, const Rates& rates, UpdateTime u, double forward_s, double backward_s) {
  if (s.layout.overlap.gradients) u.reduce_s -= rates.fixed().overlap * std::min(u.reduce_s, backward_s);
  if (s.layout.overlap.parameters) u.gather_s -= rates.fixed().overlap * std::min(u.gather_s, forward_s);
  return u;
}

}  // namespace trireme::sim
