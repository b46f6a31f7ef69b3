#include "sim/estimate/step_model.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "base/errors.h"
#include "plan/pipeline/generators.h"
#include "sim/estimate/collective_time.h"
#include "sim/estimate/memory_pieces.h"

namespace trireme::sim {

namespace {

plan::Schedule schedule_of(const Setting& s, std::int64_t micro_batches) {
  return plan::make_schedule(s.layout.schedule, {.num_stages = s.layout.pp,
                                                 .num_micro_batches = static_cast<int>(micro_batches),
                                                 .num_chunks = s.layout.virtual_stages,
                                                 .micro_batch_group = s.layout.micro_batch_group});
}

}  // namespace

plan::Schedule schedule_of(const Setting& s) {
  TRIREME_CHECK(s.layout.dp > 0, "a layout whose dp is not resolved");
  return schedule_of(s, s.batch.num_micro_batches(s.layout.dp));
}

std::shared_ptr<const CompiledGrid> compile_grid(const Setting& s) {
  return std::make_shared<CompiledGrid>(compile(schedule_of(s)));
}

StepModel::StepModel(const Setting& setting, std::shared_ptr<const CompiledGrid> grid,
                     const model::Kernels& memory)
    : setting_(setting), map_(plan::piece_map(setting.layout.schedule)), grid_(std::move(grid)) {
  if (!grid_) grid_ = compile_grid(setting_);
  shape_step(setting_, shape_);
  works_.resize(shape_.kinds.size());
  for (std::size_t k = 0; k < works_.size(); ++k) add_layer_operators(setting_, shape_.kinds[k].layer, works_[k]);
  add_embedding_operators(setting_, embed_);
  add_head_operators(setting_, head_);
  if (setting_.model.mtp_depth > 0) add_mtp_operators(setting_, mtp_);
  swapped_bytes(setting_, memory, static_cast<int>(shape_.pieces.size()), host_bytes_);
}

std::vector<PieceTime> StepModel::piece_times(const Rates& rates) const {
  std::vector<LayerTime> kinds;
  for (std::size_t k = 0; k < works_.size(); ++k)
    kinds.push_back(layer_time(works_[k], setting_, rates,
                               shape_.kinds[k].recomputed ? setting_.layout.recompute : plan::RecomputeSet{},
                               shape_.kinds[k].moe));
  const EndTimes ends{.embed = layer_time(embed_, setting_, rates, {}, false),
                      .head = layer_time(head_, setting_, rates, {}, false),
                      .mtp_projection = layer_time(mtp_, setting_, rates, {}, false)};
  std::vector<PieceTime> times;
  for (std::size_t p = 0; p < shape_.pieces.size(); ++p)
    times.push_back(
        piece_time(setting_, rates, shape_, shape_.pieces[p], kinds, ends, host_bytes_.empty() ? 0 : host_bytes_[p]));
  return times;
}

StepPrices StepModel::prices(const Rates& rates) const {
  const plan::LayoutSpec& l = setting_.layout;
  StepPrices out{.pieces = piece_times(rates)};
  // Tensor ranks each send their part; without sequence parallelism the receivers gather it.
  const double message = stage_message_bytes(setting_) / l.tp;
  const plan::AxisStrides strides = plan::mesh_of(l).strides();
  if (l.pp > 1) out.send_s = rates.collective_s(CollectiveKind::send, strides.place(Axis::pp), message);
  if (l.pp > 1 && l.tp > 1 && !l.sequence_parallel)
    out.send_s += rates.collective_s(CollectiveKind::all_gather, strides.place(Axis::tp), message * l.tp);
  for (int s = 0; s < l.pp; ++s) {
    StageUpdate& update = out.updates.emplace_back();
    double dense = 0, experts = 0;
    for (int c = 0; c < grid_->num_chunks; ++c) {
      const PieceTime& t = out.pieces[piece(s, c)];
      update.forward_s += t.forward_s, update.backward_s += t.input_s + t.weight_s;
      dense += shape_.pieces[piece(s, c)].dense, experts += shape_.pieces[piece(s, c)].experts;
    }
    update.whole = update_time(setting_, rates, dense, experts);
  }
  return out;
}

GridCosts StepModel::grid_costs(const Rates& rates, const StepPrices& prices) const {
  const plan::LayoutSpec& l = setting_.layout;
  GridCosts costs;
  const int cells = grid_->num_cells(), chunks = grid_->num_chunks;
  costs.forward_s.assign(cells, 0);
  costs.input_gradient_s = costs.weight_gradient_s = costs.backward_s = costs.forward_s;
  costs.forward_send_s.assign(cells, prices.send_s);
  costs.backward_send_s.assign(cells, prices.send_s);
  costs.sends = l.overlap.pipeline ? SendMode::lane : SendMode::blocking;
  const bool pairs = grid_->uses[static_cast<int>(UnitKind::pair)];
  if (pairs) costs.pair_s.assign(cells * chunks, 0);
  for (int s = 0; s < l.pp; ++s)
    for (int c = 0; c < chunks; ++c) {
      const int cell = s * chunks + c;
      const PieceTime& t = prices.pieces[piece(s, c)];
      costs.forward_s[cell] = t.forward_slot_s();
      costs.input_gradient_s[cell] = t.input_slot_s();
      costs.weight_gradient_s[cell] = t.weight_s;
      costs.backward_s[cell] = t.backward_slot_s();
      for (int b = 0; pairs && b < chunks; ++b)
        costs.pair_s[cell * chunks + b] = joined_s(setting_, t, prices.pieces[piece(s, b)], rates);
    }
  return costs;
}

StepTime StepModel::evaluate(const Rates& rates) const {
  GridWorkspace workspace;
  return evaluate(rates, workspace);
}

StepTime StepModel::evaluate(const Rates& rates, GridWorkspace& workspace, bool spans) const {
  const StepPrices prices = this->prices(rates);
  const GridResult& grid = simulate_grid(*grid_, grid_costs(rates, prices), workspace, spans);
  StepTime out;
  out.pipeline_s = grid.makespan_s * (1 + rates.fixed().noise);
  out.bubble = grid.bubble_fraction();
  double end = 0;
  for (int s = 0; s < setting_.layout.pp; ++s) {
    if (grid.busy_s[s] > grid.busy_s[out.slowest_stage]) out.slowest_stage = s;
    double copies = 0;
    for (int c = 0; c < grid_->num_chunks; ++c) copies += prices.pieces[piece(s, c)].copies_not_hidden_s();
    out.swap_s = std::max(out.swap_s, copies * double(setting_.batch.num_micro_batches(setting_.layout.dp)));
    const StageUpdate& update = prices.updates[s];
    const UpdateTime u = exposed(setting_, rates, update.whole, update.forward_s, update.backward_s);
    const double total = grid.finish_s[s] * (1 + rates.fixed().noise) + u.reduce_s + u.gather_s + u.update_s();
    if (total > end) end = total, out.reduce_s = u.reduce_s, out.gather_s = u.gather_s, out.optimizer_s = u.update_s();
  }
  out.step_s = std::max(end, out.pipeline_s);
  out.tokens_per_s_per_device =
      double(setting_.batch.global_batch) * double(setting_.batch.sequence_length) / out.step_s / setting_.num_devices;
  return out;
}

}  // namespace trireme::sim
