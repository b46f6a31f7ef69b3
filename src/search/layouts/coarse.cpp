#include "search/layouts/coarse.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "plan/pieces.h"
#include "plan/pipeline/generators.h"
#include "search/layouts/layout_rules.h"
#include "sim/estimate/memory.h"
#include "sim/estimate/memory_pieces.h"

namespace trireme::search {

namespace {

using plan::Sharding;
using sim::LayerTime;
using sim::PassTime;

LayerTime end_time(void (*add)(const sim::Setting&, sim::OperatorList&), const sim::Setting& s, const sim::Rates& rates,
                   sim::OperatorList& works) {
  works.size = 0;
  add(s, works);
  return sim::layer_time(works, s, rates, {}, false);
}

void sum(const LayerTime& t, double count, PassTime& forward, PassTime& backward) {
  forward += t.pass[0] * count;
  backward += t.pass[1] * count;
  backward += t.pass[2] * count;
}

double seconds_of(const LayerTime& t, const sim::Rates& rates) {
  PassTime forward, backward;
  sum(t, 1, forward, backward);
  return sim::wall_s(forward, rates) + sim::wall_s(backward, rates);
}

}  // namespace

CoarseBounds::CoarseBounds(const Question& question)
    : question_(question), setting_(question.base), frugal_(question.target.kernels) {
  frugal_.gathered_layers = frugal_.reduced_layers = frugal_.swapped_layers = 0;
  frugal_.optimizer_slices = 1 << 30;
  frugal_states_.sharding = Sharding::parameters;
  if (question.is_given("layout.swap"))
    frugal_states_.swap = question.base.layout.swap;
  else if (question.target.host_capacity_bytes > 0)
    frugal_states_.swap = {3};
  find_kinds();
}

void CoarseBounds::find_kinds() {
  const model::ModelSpec& m = setting_.model;
  for (int layer = 0; layer < m.num_layers + (m.mtp_depth > 0 ? 1 : 0); ++layer) {
    const auto same = [&](int other) {
      return m.mixer(layer) == m.mixer(other) && m.feed_forward(layer) == m.feed_forward(other) &&
             m.window(layer) == m.window(other) && m.compression(layer) == m.compression(other);
    };
    const auto at = std::find_if(kinds_.begin(), kinds_.end(), same);
    layer_kind_.push_back(static_cast<int>(at - kinds_.begin()));
    if (at == kinds_.end()) kinds_.push_back(layer);
  }
}

int CoarseBounds::kind_of(int layer) const {
  return layer_kind_[layer];
}

void CoarseBounds::enter_cell(const Cell& cell) {
  apply(cell, setting_);
  for (Exchange& e : exchanges_) e.ready = false;
  exchange_ = nullptr;
  const sim::Rates& rates = *question_.target.rates;
  ends_.embed = end_time(sim::add_embedding_operators, setting_, rates, end_works_);
  ends_.head = end_time(sim::add_head_operators, setting_, rates, end_works_);
  if (setting_.model.mtp_depth > 0)
    ends_.mtp_projection = end_time(sim::add_mtp_operators, setting_, rates, end_works_);
}

const CoarseBounds::Exchange& CoarseBounds::price_exchange(const std::string& all_to_all, bool overlap) {
  auto at = std::find_if(exchanges_.begin(), exchanges_.end(),
                         [&](const Exchange& e) { return e.all_to_all == all_to_all && e.overlap == overlap; });
  if (at == exchanges_.end()) {
    exchanges_.push_back({.all_to_all = all_to_all, .overlap = overlap, .works = {}, .times = {}});
    at = exchanges_.end() - 1;
    at->works.resize(kinds_.size());
    at->times.resize(kinds_.size());
  }
  if (!at->ready) {
    setting_.layout.all_to_all = all_to_all;
    setting_.layout.overlap.experts = overlap;
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
      at->works[k].size = 0;
      sim::add_layer_operators(setting_, kinds_[k], at->works[k]);
      at->times[k] =
          sim::layer_time(at->works[k], setting_, *question_.target.rates, {}, setting_.model.is_moe(kinds_[k]));
    }
    at->ready = true;
  }
  return *at;
}

double CoarseBounds::bound_cell_s() {
  const sim::Rates& rates = *question_.target.rates;
  const model::ModelSpec& m = setting_.model;
  const plan::LayoutSpec& given = question_.base.layout;
  const bool overlap = question_.is_given("layout.overlap.experts") ? given.overlap.experts : setting_.layout.ep > 1;
  const bool may_join =
      !question_.is_given("layout.schedule") || given.schedule == "merged_1f1b" || given.schedule == "dualpipe_v";
  const auto least = [&](const std::string& pattern) {
    const Exchange& e = price_exchange(pattern, overlap);
    PassTime forward, backward, head_forward, head_backward;
    for (int layer = 0; layer < m.num_layers; ++layer) sum(e.times[kind_of(layer)], 1, forward, backward);
    sum(ends_.embed, 1, forward, backward);
    sum(ends_.head, 1 + m.mtp_depth, head_forward, head_backward);
    if (m.mtp_depth > 0) {
      sum(e.times[kind_of(m.num_layers)], m.mtp_depth, head_forward, head_backward);
      sum(ends_.mtp_projection, m.mtp_depth, head_forward, head_backward);
    }
    forward += head_forward, backward += head_backward;
    if (setting_.execution.frozen_weights) backward = head_backward = {};
    // A wall time is a norm of its parts: that of a sum is at most the sum of those of its pieces, and one stage has at
    // least the mean. The stage with the head has at least that.
    const auto least_s = [&](PassTime f, const PassTime& b) {
      if (!overlap || !may_join) return sim::wall_s(f, rates) + sim::wall_s(b, rates);
      return sim::joined_lower_bound_s(f += b, rates);
    };
    return std::max(least_s(forward, backward) / setting_.layout.pp, least_s(head_forward, head_backward));
  };
  double best = std::numeric_limits<double>::infinity();
  for (const std::string& pattern : patterns_of(question_, setting_)) best = std::min(best, least(pattern));
  return best * double(setting_.batch.num_micro_batches(setting_.layout.dp)) * (1 + rates.fixed().noise) * (1 - 1e-12);
}

bool CoarseBounds::enter_family(const Family& family) {
  apply(family, setting_);
  const plan::LayoutSpec& given = question_.base.layout;
  // Those of layouts before would break this one's rules.
  setting_.layout.shard_degree = given.shard_degree, setting_.layout.expert_shard_degree = given.expert_shard_degree;
  auto& layers = setting_.layout.stage_layers;
  layers.clear();
  if (family.split == Split::as_given) layers = given.stage_layers;
  if (!holds(schedule_rules(), setting_)) return false;
  exchange_ = &price_exchange(family.all_to_all, family.overlap_experts);
  const int pieces = setting_.layout.pp * family.virtual_stages;
  if (family.split == Split::as_given || family.split == Split::even) return true;

  const sim::Rates& rates = *question_.target.rates;
  const model::ModelSpec& m = setting_.model;
  layer_s_.clear();
  for (int layer = 0; layer < m.num_layers; ++layer)
    layer_s_.push_back(seconds_of(exchange_->times[kind_of(layer)], rates));
  double last = seconds_of(ends_.head, rates) * (1 + m.mtp_depth);
  if (m.mtp_depth > 0)
    last += m.mtp_depth *
            (seconds_of(exchange_->times[kind_of(m.num_layers)], rates) + seconds_of(ends_.mtp_projection, rates));
  const LayerCosts costs{.layer_s = layer_s_, .first_s = seconds_of(ends_.embed, rates), .last_s = last};
  const auto even = [&](const std::vector<std::int64_t>& split) {
    for (int p = 0; p < pieces; ++p)
      if (split[p] != m.num_layers / pieces + (p < m.num_layers % pieces ? 1 : 0)) return false;
    return true;
  };
  const auto early = balanced_split(costs, pieces, false);
  if (family.split == Split::balanced_early) {
    layers = early;
    return !even(early);
  }
  layers = balanced_split(costs, pieces, true);
  return !even(layers) && layers != early;
}

int CoarseBounds::most_layers_of_a_piece() const {
  return plan::PieceSizes(setting_.layout, setting_.model.num_layers).largest();
}

double CoarseBounds::bound_family_bytes(const Recomputation& recomputation) {
  apply(recomputation, setting_);
  apply(frugal_states_, setting_);
  return bound_frugal_bytes();
}

void CoarseBounds::enter_recomputation(const Recomputation& recomputation) {
  apply(recomputation, setting_);
  sim::shape_step(setting_, shape_);
  kind_times_.clear();
  for (const sim::LayerKind& k : shape_.kinds) {
    const int kind = kind_of(k.layer);
    kind_times_.push_back(k.recomputed ? sim::layer_time(exchange_->works[kind], setting_, *question_.target.rates,
                                                         recomputation.set, k.moe)
                                       : exchange_->times[kind]);
  }
  for (Pieces& p : pieces_) p.ready = false;
}

const std::vector<sim::PieceTime>& CoarseBounds::price_pieces() {
  const bool traffic = setting_.layout.sharding == Sharding::parameters;
  Pieces& p = pieces_[traffic ? 1 : 0];
  // Traffic depends on the shards and on what runs beside compute: it is priced anew.
  if (p.ready && !traffic) return p.times;
  sim::price_pieces(setting_, *question_.target.rates, shape_, kind_times_, ends_, p.times, {});
  p.ready = true;
  return p.times;
}

double CoarseBounds::bound_s() {
  return sim::step_lower_bound_s(setting_, *question_.target.rates, shape_, price_pieces());
}

double CoarseBounds::bound_bytes() const {
  return sim::memory_lower_bound(setting_, question_.target.kernels);
}

double CoarseBounds::bound_frugal_bytes() const {
  return sim::memory_lower_bound(setting_, frugal_);
}

double CoarseBounds::bound_s_with_copies() {
  sim::swapped_bytes(setting_, question_.target.kernels, static_cast<int>(shape_.pieces.size()), host_bytes_);
  if (host_bytes_.empty()) return bound_s();
  sim::price_pieces(setting_, *question_.target.rates, shape_, kind_times_, ends_, copying_, host_bytes_);
  return sim::step_lower_bound_s(setting_, *question_.target.rates, shape_, copying_);
}

}  // namespace trireme::search
