#include <algorithm>

#include "plan/pieces.h"
#include "plan/pipeline/generators.h"
#include "sim/estimate/expert_load.h"
#include "sim/estimate/memory.h"
#include "sim/estimate/memory_pieces.h"

namespace trireme::sim {

namespace {

// Forwards of `chunk` among the first `count` of an interleaved row: groups of micro-batches go through chunk after
// chunk.
double forwards_of_chunk(double count, double micro_batches, double group, int chunks, int chunk) {
  double out = 0;
  for (double first = 0; first < micro_batches && count > 0; first += group) {
    const double size = std::min(group, micro_batches - first);
    out += std::clamp(count - chunk * size, 0.0, size);
    count -= chunks * size;
  }
  return out;
}

// Micro-batches of a stage's chunk that are in flight when its first backward starts.
//
// GPipe: all. 1F1B and zero bubble H1: min(m, pp - s). Interleaved (Narayanan et al. 2021, section 2.2): the warm-up's
// 2 (pp - s - 1) + (v - 1) pp forwards and the one before the first backward; merged: one more, together with it. The V
// shapes (zero_bubble_v.h, dualpipe_v.h): 2 pp - s - 1 of the first chunk and s + 1 of the second. With
// any schedule the first backward of the last piece comes after that micro-batch's forward in every piece, and its
// backward reaches no other piece before: at that moment each chunk holds at least one.
double in_flight(const plan::LayoutSpec& l, int stage, double micro_batches, int chunks, int chunk) {
  if (l.schedule == "gpipe") return micro_batches;
  if (l.schedule == "1f1b" || l.schedule == "zero_bubble_h1") return std::min<double>(micro_batches, l.pp - stage);
  if (plan::piece_map(l.schedule) == plan::PieceMap::v)
    return std::min<double>(micro_batches, chunk == 0 ? 2 * l.pp - stage - 1 : stage + 1);
  const bool merged = l.schedule == "merged_1f1b";
  if (l.schedule == "interleaved_1f1b" || merged) {
    const double first = 2.0 * (l.pp - stage - 1) + (chunks - 1.0) * l.pp + (merged ? 2 : 1);
    return forwards_of_chunk(std::min(first, micro_batches * chunks), micro_batches, l.pp, chunks, chunk);
  }
  return 1;
}

}  // namespace

double memory_lower_bound(const Setting& setting, const model::Kernels& kernels) {
  const auto& l = setting.layout;
  const DataRanks ranks = data_ranks(setting);
  LayerTable table(setting, kernels, heaviest_rank(setting.load, setting.model.moe.num_experts, l.ep), false);
  WeightTable weights(setting, kernels);
  constexpr int most_chunks = 64;
  const int chunks = std::min(most_chunks, plan::chunks_a_stage(l.schedule, l.virtual_stages));
  const int dp = std::max(1, ranks.dense / std::max(1, l.cp));
  const double micro_batches = std::max<double>(1, static_cast<double>(setting.batch.num_micro_batches(dp)));
  const plan::PieceMap map = plan::piece_map(l.schedule);
  const bool whole_backward = l.schedule == "gpipe" || l.schedule == "1f1b";
  double worst = 0;
  for (int s = 0; s < l.pp; ++s) {
    double saved = 0, extra = 0;
    model::LayerRange pieces[most_chunks];
    for (int c = 0; c < chunks; ++c) {
      pieces[c] = plan::layers_of_piece(l, setting.model.num_layers, plan::piece_of(map, l.pp, s, c));
      const PieceMemory m = piece_memory(table, pieces[c]);
      const double n = in_flight(l, s, micro_batches, chunks, c);
      saved += n * m.saved;
      if (whole_backward) extra = std::max(m.backward_peak, m.forward_peak) - m.saved;
    }
    const StateBytes states = state_bytes(weights, pieces, chunks, false);
    worst = std::max(worst, states.total() + std::max(saved + extra, states.step));
  }
  return worst * (1 + kernels.fragmentation) + outside_bytes(setting, kernels).total();
}

}  // namespace trireme::sim
