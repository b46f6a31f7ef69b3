#include "sim/estimate/step_bound.h"

#include <algorithm>

#include "plan/pieces.h"
#include "plan/pipeline/generators.h"

namespace trireme::sim {

namespace {

LayerTime time_of(void (*add)(const Setting&, OperatorList&), const Setting& s, const Rates& rates, OperatorList& works) {
  works.size = 0;
  add(s, works);
  return layer_time(works, s, rates, {}, false);
}

}  // namespace

double step_lower_bound_s(const Setting& s, const Rates& rates, BoundWorkspace& w) {
  const plan::LayoutSpec& l = s.layout;
  shape_step(s, w.shape);
  w.kinds.clear();
  for (const LayerKind& k : w.shape.kinds) {
    w.works.size = 0;
    add_layer_operators(s, k.layer, w.works);
    w.kinds.push_back(layer_time(w.works, s, rates, k.recomputed ? l.recompute : plan::RecomputeSet{}, k.moe));
  }
  EndTimes ends{.embed = time_of(add_embedding_operators, s, rates, w.works),
                .head = time_of(add_head_operators, s, rates, w.works),
                .mtp_projection = {}};
  if (s.model.mtp_depth > 0) ends.mtp_projection = time_of(add_mtp_operators, s, rates, w.works);
  price_pieces(s, rates, w.shape, w.kinds, ends, w.pieces, {});
  return step_lower_bound_s(s, rates, w.shape, w.pieces);
}

void price_pieces(const Setting& s, const Rates& rates, const StepShape& shape, std::span<const LayerTime> kinds,
                  const EndTimes& ends, std::vector<PieceTime>& pieces, std::span<const double> host_bytes) {
  pieces.clear();
  for (std::size_t p = 0; p < shape.pieces.size(); ++p) {
    const PieceShape& piece = shape.pieces[p];
    const double host = host_bytes.empty() ? 0 : host_bytes[p];
    const bool as_before = p > 1 && !piece.head && piece.layers == shape.pieces[p - 1].layers &&
                           piece.dense == shape.pieces[p - 1].dense &&
                           (host_bytes.empty() || host == host_bytes[p - 1]);
    pieces.push_back(as_before ? pieces.back() : piece_time(s, rates, shape, piece, kinds, ends, host));
  }
}

double step_lower_bound_s(const Setting& s, const Rates& rates, const StepShape& shape,
                          std::span<const PieceTime> pieces) {
  const plan::LayoutSpec& l = s.layout;
  const plan::PieceMap map = plan::piece_map(l.schedule);
  const bool joined = l.schedule != "zero_bubble_h1" && map != plan::PieceMap::v;  // the last slot of a stage is a whole backward
  const bool pairs = joins(l);
  const double micro_batches = double(s.batch.num_micro_batches(l.dp));
  double end = 0, fill = 0, drain = 0;
  for (int stage = 0; stage < l.pp; ++stage) {
    double work = 0, forward = 0, backward = 0, dense = 0, experts = 0;
    PassTime all;
    double copies = 0;
    for (int chunk = 0; chunk < l.virtual_stages; ++chunk) {
      const int p = plan::piece_of(map, l.pp, stage, chunk);
      const PieceTime& t = pieces[p];
      forward += t.forward_s, backward += t.input_s + t.weight_s;
      dense += shape.pieces[p].dense, experts += shape.pieces[p].experts;
      work += t.forward_slot_s() + t.backward_slot_s();
      if (!pairs) continue;
      all += t.forward, all += t.input, all += t.weight;
      copies += t.copy_s;  // in a pair one half's way out and the other's way in are beside one another
    }
    if (pairs) work = std::max(joined_lower_bound_s(all, rates), copies);
    work *= micro_batches;
    const UpdateTime update = exposed(s, rates, update_time(s, rates, dense, experts), forward, backward);
    const double pipeline = (fill + work) * (1 + rates.fixed().noise);
    const double after = update.reduce_s + update.gather_s + update.update_s();
    end = std::max({end, pipeline + after, joined ? (fill + work + drain) * (1 + rates.fixed().noise) : 0});
    fill += pieces[stage].forward_slot_s();
    if (joined) drain += pieces[stage].backward_slot_s();
  }
  // Sums in another order than the grid's differ by rounding.
  return end * (1 - 1e-12);
}

}  // namespace trireme::sim
