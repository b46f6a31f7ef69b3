#include "sim/estimate/step_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "base/errors.h"
#include "plan/pipeline/generators.h"
#include "sim/estimate/collective_time.h"

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
  if (static_cast<int>(out.size()) != pieces || std::accumulate(out.begin(), out.end(), 0) != num_layers)
    throw ConfigError({.key = "layout.stage_layers",
                       .value = fmt::format("{} entries with {} layers", out.size(), std::accumulate(out.begin(), out.end(), 0)),
                       .allowed = fmt::format("{} entries with {} layers", pieces, num_layers)});
  return out;
}

namespace {

plan::Schedule schedule_of(const Setting& s, std::int64_t micro_batches) {
  return plan::make_schedule(s.layout.schedule, {.num_stages = s.layout.pp, .num_micro_batches = static_cast<int>(micro_batches),
                                                 .num_chunks = s.layout.virtual_stages});
}

}  // namespace

plan::Schedule schedule_of(const Setting& s) {
  TRIREME_CHECK(s.layout.dp > 0, "a layout whose dp is not resolved");
  return schedule_of(s, s.batch.num_micro_batches(s.layout.dp));
}

std::shared_ptr<const CompiledGrid> compile_grid(const Setting& s) { return std::make_shared<CompiledGrid>(compile(schedule_of(s))); }

StepModel::StepModel(const Setting& setting, std::shared_ptr<const CompiledGrid> grid) : setting_(setting), grid_(std::move(grid)) {
  const plan::LayoutSpec& l = setting_.layout;
  if (!grid_) grid_ = compile_grid(setting_);
  // Where the pieces lie does not depend on the number of micro-batches.
  const plan::Schedule schedule = schedule_of(setting_, l.pp);
  piece_of_.assign(l.pp, std::vector<int>(grid_->num_chunks, -1));
  for (int s = 0; s < l.pp; ++s)
    for (int c = 0; c < grid_->num_chunks; ++c) piece_of_[s][c] = plan::piece_of(schedule, s, c);
  cut_into_pieces();
  add_embedding_work(setting_, embed_);
  add_head_work(setting_, head_);
  if (setting_.model.mtp_depth > 0) {
    add_mtp_projection_work(setting_, mtp_);
    mtp_kind_ = kind_of(setting_.model.num_layers, !l.recompute.empty());
  }
}

int StepModel::kind_of(int layer, bool recomputed) {
  const model::ModelSpec& m = setting_.model;
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    const LayerKind& k = kinds_[i];
    if (k.recomputed == recomputed && m.mixer(k.layer) == m.mixer(layer) && m.feed_forward(k.layer) == m.feed_forward(layer) &&
        m.window(k.layer) == m.window(layer) && m.compression(k.layer) == m.compression(layer))
      return static_cast<int>(i);
  }
  LayerKind& kind = kinds_.emplace_back();
  kind.layer = layer, kind.recomputed = recomputed, kind.moe = m.is_moe(layer);
  add_layer_work(setting_, layer, kind.works);
  return static_cast<int>(kinds_.size()) - 1;
}

void StepModel::cut_into_pieces() {
  const plan::LayoutSpec& l = setting_.layout;
  const auto layers = layers_of_pieces(l, setting_.model.num_layers);
  int layer = 0;
  for (std::size_t p = 0; p < layers.size(); ++p) {
    Piece& piece = pieces_.emplace_back();
    piece.embed = p == 0, piece.head = p + 1 == layers.size();
    piece.parameters = model::parameters_of(
        setting_.model,
        {.first_layer = layer, .num_layers = layers[p], .embed = piece.embed, .head = piece.head,
         .mtp = piece.head && setting_.model.mtp_depth > 0},
        {.tp = l.tp, .ep = l.ep, .etp = l.etp});
    for (int i = 0; i < layers[p]; ++i, ++layer) {
      const bool recomputed = !l.recompute.empty() && (l.recompute_layers == 0 || i < l.recompute_layers);
      const int kind = kind_of(layer, recomputed);
      piece.kind_counts.resize(std::max<std::size_t>(piece.kind_counts.size(), kind + 1));
      ++piece.kind_counts[kind];
    }
  }
}

// Fully sharded parameters travel before use and their gradients after, once a micro-batch.
PassTime StepModel::shard_traffic(const Piece& piece, const Machine& machine, bool forward) const {
  PassTime t;
  const plan::LayoutSpec& l = setting_.layout;
  if (l.sharding != plan::Sharding::parameters) return t;
  const double experts = double(piece.parameters.routed_experts), dense = double(piece.parameters.total()) - experts;
  GroupPlace data = place_of(l, Axis::data), expert_data = place_of(l, Axis::expert_data);
  if (l.shard_degree > 0) data.size = std::min<double>(data.size, l.shard_degree);
  if (l.expert_shard_degree > 0) expert_data.size = std::min<double>(expert_data.size, l.expert_shard_degree);
  const auto both = [&](double element) {
    return ring_gather_s(machine, data, dense * element) + ring_gather_s(machine, expert_data, experts * element);
  };
  const double gather = both(setting_.precision.gather_bytes);
  (l.overlap.parameters ? t.beside : t.collectives) += gather;
  if (!forward) (l.overlap.gradients ? t.beside : t.collectives) += both(setting_.precision.reduce_bytes);
  return t;
}

StepModel::PieceTime StepModel::time_of(const Piece& piece, const std::vector<LayerTime>& kinds, const Machine& machine) const {
  PieceTime out;
  const auto add = [&](const LayerTime& t, double count) {
    out.forward += t.pass[0] * count;
    out.input += t.pass[1] * count;
    out.input += t.recompute * count;
    if (!setting_.execution.frozen_weights) out.weight += t.pass[2] * count;
  };
  for (std::size_t k = 0; k < piece.kind_counts.size(); ++k)
    if (piece.kind_counts[k] > 0) add(kinds[k], piece.kind_counts[k]);
  if (piece.embed) add(layer_time(embed_, setting_, machine, {}, false), 1);
  if (piece.head) {
    const LayerTime head = layer_time(head_, setting_, machine, {}, false);
    add(head, 1 + setting_.model.mtp_depth);
    if (mtp_kind_ >= 0) {
      add(kinds[mtp_kind_], setting_.model.mtp_depth);
      add(layer_time(mtp_, setting_, machine, {}, false), setting_.model.mtp_depth);
    }
  }
  out.forward += shard_traffic(piece, machine, true);
  out.input += shard_traffic(piece, machine, false);
  out.forward_s = wall_s(out.forward, machine);
  // Hiding is judged over both halves of the backward, which a schedule that joins them runs as one.
  PassTime backward = out.input;
  backward += out.weight;
  out.weight_s = wall_s(out.weight, machine);
  out.input_s = std::max(wall_s(backward, machine) - out.weight_s, 0.0);
  return out;
}

double StepModel::optimizer_s(const Piece& piece, const Machine& machine) const {
  const plan::LayoutSpec& l = setting_.layout;
  const Precision& p = setting_.precision;
  if (setting_.execution.frozen_weights) return 0;
  const double experts = double(piece.parameters.routed_experts), dense = double(piece.parameters.total()) - experts;
  const bool sharded = l.sharding != plan::Sharding::none;
  const double of_data = sharded ? std::max(1.0, l.shard_degree > 0 ? double(l.shard_degree) : place_of(l, Axis::data).size) : 1;
  const double of_experts =
      sharded ? std::max(1.0, l.expert_shard_degree > 0 ? double(l.expert_shard_degree) : place_of(l, Axis::expert_data).size) : 1;
  const double elements = dense / of_data + experts / of_experts;
  // Reads gradient, master and moments; writes master, moments and the parameter. Norm and clipping read gradients twice more.
  const double bytes = 3 * p.gradient_bytes + 2 * p.master_bytes + 2 * p.moment_bytes + p.weight_bytes;
  double seconds = elements * bytes / machine.memory_bytes;
  if (l.swap.has(plan::Swap::optimizer) && machine.host_bytes > 0)
    seconds = std::max(seconds, elements * (p.master_bytes + p.moment_bytes) / machine.host_bytes);
  return seconds;
}

StepTime StepModel::evaluate(const Machine& machine) const {
  GridWorkspace workspace;
  return evaluate(machine, workspace);
}

StepTime StepModel::evaluate(const Machine& machine, GridWorkspace& workspace) const {
  const plan::LayoutSpec& l = setting_.layout;
  std::vector<LayerTime> kinds;
  for (const LayerKind& k : kinds_)
    kinds.push_back(layer_time(k.works, setting_, machine, k.recomputed ? l.recompute : plan::RecomputeSet{}, k.moe));
  std::vector<PieceTime> times;
  for (const Piece& p : pieces_) times.push_back(time_of(p, kinds, machine));

  GridCosts costs;
  const int cells = grid_->num_cells(), chunks = grid_->num_chunks;
  const double message = token_counts(setting_).attention * setting_.model.hidden * setting_.precision.activation_bytes / l.tp;
  const double distance = place_of(l, Axis::pipeline).stride;
  double send = l.pp > 1 ? send_s(machine, distance, message) : 0;
  if (l.pp > 1 && l.tp > 1 && !l.sequence_parallel) send += ring_gather_s(machine, place_of(l, Axis::tensor), message * l.tp);
  costs.forward_s.assign(cells, 0);
  costs.input_gradient_s.assign(cells, 0);
  costs.weight_gradient_s.assign(cells, 0);
  costs.backward_s.assign(cells, 0);
  costs.forward_send_s.assign(cells, send);
  costs.backward_send_s.assign(cells, send);
  costs.sends = l.overlap.pipeline ? SendMode::lane : SendMode::blocking;
  for (int s = 0; s < l.pp; ++s)
    for (int c = 0; c < chunks; ++c)
      if (const int p = piece_of_[s][c]; p >= 0) {
        const int cell = s * chunks + c;
        costs.forward_s[cell] = times[p].forward_s;
        costs.input_gradient_s[cell] = times[p].input_s;
        costs.weight_gradient_s[cell] = times[p].weight_s;
        costs.backward_s[cell] = times[p].input_s + times[p].weight_s;
      }
  const GridResult& grid = simulate_grid(*grid_, costs, workspace);

  StepTime out;
  out.pipeline_s = grid.makespan_s * (1 + machine.noise);
  out.bubble = grid.bubble_fraction();
  double end = 0;
  for (int s = 0; s < l.pp; ++s) {
    if (grid.busy_s[s] > grid.busy_s[out.slowest_stage]) out.slowest_stage = s;
    double reduce = 0, gather = 0, optimizer = 0, last_backward = 0, first_forward = 0;
    for (int c = 0; c < chunks; ++c) {
      const int p = piece_of_[s][c];
      if (p < 0) continue;
      const double experts = double(pieces_[p].parameters.routed_experts), dense = double(pieces_[p].parameters.total()) - experts;
      optimizer += optimizer_s(pieces_[p], machine);
      last_backward += times[p].input_s + times[p].weight_s;
      first_forward += times[p].forward_s;
      const GroupPlace data = place_of(l, Axis::data), expert_data = place_of(l, Axis::expert_data);
      const auto both = [&](double element) {
        return ring_gather_s(machine, data, dense * element) + ring_gather_s(machine, expert_data, experts * element);
      };
      if (l.sharding == plan::Sharding::parameters || setting_.execution.frozen_weights) continue;
      // A ring all-reduce is a scatter and a gather of what is reduced.
      reduce += both(setting_.precision.reduce_bytes) * (l.sharding == plan::Sharding::none ? 2 : 1);
      if (l.sharding != plan::Sharding::none) gather += both(setting_.precision.gather_bytes);
    }
    if (l.overlap.gradients) reduce -= machine.overlap * std::min(reduce, last_backward);
    if (l.overlap.parameters) gather -= machine.overlap * std::min(gather, first_forward);
    const double total = grid.finish_s[s] * (1 + machine.noise) + reduce + gather + optimizer;
    if (total > end) end = total, out.reduce_s = reduce, out.gather_s = gather, out.optimizer_s = optimizer;
  }
  out.step_s = std::max(end, out.pipeline_s);
  out.tokens_per_s_per_device = double(setting_.batch.global_batch) * double(setting_.batch.sequence_length) / out.step_s / setting_.num_devices;
  return out;
}

}  // namespace trireme::sim
