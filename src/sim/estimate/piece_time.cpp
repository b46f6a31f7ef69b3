#include "sim/estimate/piece_time.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/errors.h"
#include "model/parameter_parts.h"
#include "sim/estimate/collective_time.h"
#include "sim/estimate/newton_schulz.h"

namespace trireme::sim {

std::vector<int> layers_of_pieces(const plan::LayoutSpec& l, int num_layers) {
  const int pieces = l.pp * l.virtual_stages;
  std::vector<int> out;
  if (l.stage_layers.empty()) {
    for (int i = 0; i < pieces; ++i) out.push_back(num_layers / pieces + (i < num_layers % pieces ? 1 : 0));
    return out;
  }
  if (static_cast<int>(l.stage_layers.size()) == l.pp && l.virtual_stages > 1) {
    // By stage: spread over its chunks, the earlier ones more.
    out.assign(pieces, 0);
    for (int s = 0; s < l.pp; ++s)
      for (int i = 0; i < l.stage_layers[s]; ++i) ++out[s + (i % l.virtual_stages) * l.pp];
  } else {
    for (std::int64_t n : l.stage_layers) out.push_back(static_cast<int>(n));
  }
  const int sum = std::accumulate(out.begin(), out.end(), 0);
  if (static_cast<int>(out.size()) != pieces || sum != num_layers)
    throw ConfigError({.key = "layout.stage_layers",
                       .value = fmt::format("{} entries with {} layers", out.size(), sum),
                       .allowed = fmt::format("{} entries with {} layers", pieces, num_layers)});
  return out;
}

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

GroupPlace shard_group(const plan::LayoutSpec& l, Axis axis, int degree) {
  GroupPlace g = place_of(l, axis);
  if (degree > 0) g.size = std::min<double>(g.size, degree);
  return g;
}

// A gather (or scatter) of dense and expert parameters over the ranks that share them.
double shard_s(const Setting& s, const Machine& machine, double dense, double experts, double element) {
  const plan::LayoutSpec& l = s.layout;
  double seconds = ring_gather_s(machine, shard_group(l, Axis::dp, l.shard_degree), dense * element);
  if (experts > 0)
    seconds += ring_gather_s(machine, shard_group(l, Axis::edp, l.expert_shard_degree), experts * element);
  return seconds;
}

// Sums of each shard over the sets of shards.
double replicas_s(const Machine& machine, GroupPlace all, int degree, double bytes) {
  if (degree <= 0 || degree >= all.size) return 0;
  return all_reduce_s(machine, {all.size / degree, all.stride * degree}, bytes / degree);
}

}  // namespace

bool joins(const plan::LayoutSpec& l) {
  return l.overlap.experts && (l.schedule == "merged_1f1b" || l.schedule == "dualpipe_v");
}

double joined_s(const PieceTime& forward, const PieceTime& backward, const Machine& machine) {
  PassTime b = backward.input;
  b += backward.weight;
  return std::max({pair_s(forward.forward, b, machine), forward.copy_s, backward.copy_s});
}

void shape_step(const Setting& s, StepShape& out) {
  const plan::LayoutSpec& l = s.layout;
  const int count = l.pp * l.virtual_stages, layers = s.model.num_layers;
  std::vector<int> given;
  if (!l.stage_layers.empty()) given = layers_of_pieces(l, layers);
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
    const int here = given.empty() ? layers / count + (p < layers % count ? 1 : 0) : given[p];
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

PieceTime piece_time(const Setting& s, const Machine& machine, const StepShape& shape, const PieceShape& piece,
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
    const double gather = shard_s(s, machine, piece.dense, piece.experts, s.precision.gather_bytes);
    (l.overlap.parameters ? out.forward.beside : out.forward.collectives) += gather;
    (l.overlap.parameters ? out.input.beside : out.input.collectives) += gather;
    (l.overlap.gradients ? out.input.beside : out.input.collectives) +=
        shard_s(s, machine, piece.dense, piece.experts, s.precision.reduce_bytes);
  }
  const auto wall = joins(l) ? alone_s : static_cast<double (*)(const PassTime&, const Machine&)>(wall_s);
  out.forward_s = wall(out.forward, machine);
  // Hiding is judged over both halves of the backward, which a schedule that joins them runs as one.
  PassTime backward = out.input;
  backward += out.weight;
  out.weight_s = wall(out.weight, machine);
  out.input_s = std::max(wall(backward, machine) - out.weight_s, 0.0);
  if (host_bytes > 0 && machine.host_bytes > 0) out.copy_s = host_bytes / machine.host_bytes;
  return out;
}

UpdateTime update_time(const Setting& s, const Machine& machine, double dense, double experts) {
  UpdateTime out;
  if (s.execution.frozen_weights) return out;
  const plan::LayoutSpec& l = s.layout;
  const Precision& p = s.precision;
  if (l.sharding != plan::Sharding::parameters) {
    // A ring all-reduce is a scatter and a gather of what is reduced.
    out.reduce_s = shard_s(s, machine, dense, experts, p.reduce_bytes) * (l.sharding == plan::Sharding::none ? 2 : 1);
    if (l.sharding != plan::Sharding::none) out.gather_s = shard_s(s, machine, dense, experts, p.gather_bytes);
  }
  if (l.sharding != plan::Sharding::none)
    out.reduce_s +=
        replicas_s(machine, place_of(l, Axis::dp), l.shard_degree, dense * p.reduce_bytes) +
        replicas_s(machine, place_of(l, Axis::edp), l.expert_shard_degree, experts * p.reduce_bytes);
  const bool sharded = l.sharding != plan::Sharding::none;
  const double of_data = sharded ? shard_group(l, Axis::dp, l.shard_degree).size : 1;
  const double of_experts = sharded ? shard_group(l, Axis::edp, l.expert_shard_degree).size : 1;
  const double elements = dense / of_data + experts / of_experts;
  // Reads gradient, master and moments; writes master, moments and the parameter. Norm and clipping read gradients
  // twice more.
  const double bytes = 3 * p.gradient_bytes + 2 * p.master_bytes + 2 * p.moment_bytes + p.weight_bytes;
  out.optimizer_s = elements * bytes / machine.memory_bytes;
  if (l.matrix_owners) {
    const double rate =
        s.execution.newton_schulz_flops_per_s > 0 ? s.execution.newton_schulz_flops_per_s : machine.flops_16;
    out.optimizer_s += busiest_owner_flops(s) / rate;
  }
  if (l.swap.has(plan::Swap::optimizer) && machine.host_bytes > 0) {
    // In slices: each comes in while the one before is updated and the one before that goes out, both ways of the link
    // at once. The first one's way in, or the last one's way out, is beside nothing.
    constexpr double slices = 16;
    const double copy_s = elements * (p.master_bytes + p.moment_bytes) / machine.host_bytes;
    out.optimizer_s = std::max(out.optimizer_s, copy_s) + copy_s / slices;
  }
  return out;
}

UpdateTime exposed(const Setting& s, const Machine& machine, UpdateTime u, double forward_s, double backward_s) {
  if (s.layout.overlap.gradients) u.reduce_s -= machine.overlap * std::min(u.reduce_s, backward_s);
  if (s.layout.overlap.parameters) u.gather_s -= machine.overlap * std::min(u.gather_s, forward_s);
  return u;
}

}  // namespace trireme::sim
