#include <algorithm>

#include "sim/estimate/expert_load.h"
#include "sim/estimate/memory.h"
#include "sim/estimate/memory_pieces.h"

namespace trireme::sim {

namespace {

// Micro-batches of each of the stage's chunks that are in flight when its first backward starts.
//
// 1F1B: stage s has forwarded min(m, pp - s) of them; GPipe: all m. With any schedule the first backward of the last
// piece comes after that micro-batch's forward in every piece, and its backward reaches no other piece before: at that
// moment each chunk holds at least one.
double in_flight_at_least(const Setting& setting, int stage, double micro_batches) {
  const auto& l = setting.layout;
  if (l.virtual_stages > 1) return 1;
  if (l.schedule == "gpipe") return micro_batches;
  if (l.schedule == "1f1b") return std::min<double>(micro_batches, l.pp - stage);
  return 1;
}

}  // namespace

double memory_lower_bound(const Setting& setting, const platform::MemoryProfile& profile) {
  const auto& l = setting.layout;
  const DataRanks ranks = data_ranks(setting);
  LayerTable table(setting, profile, heaviest_rank(setting.load, setting.model.moe.num_experts, l.ep), false);
  WeightTable weights(setting, profile);
  const int chunks = std::max(1, l.virtual_stages), num_pieces = l.pp * chunks;
  const double micro_batches = std::max<double>(
      1, static_cast<double>(setting.batch.num_micro_batches(std::max(1, ranks.dense / std::max(1, l.cp)))));
  const bool known = chunks == 1 && (l.schedule == "gpipe" || l.schedule == "1f1b");
  const bool v_shape =
      chunks == 2 && (l.schedule == "zero_bubble_v" || l.schedule == "dualpipe_v" || l.schedule == "zbv");
  double worst = 0;
  for (int s = 0; s < l.pp; ++s) {
    double saved = 0, extra = 0;
    Piece pieces[64];
    const int count = std::min(chunks, 64);
    for (int c = 0; c < count; ++c) {
      pieces[c] = piece_at(setting, v_shape && c == 1 ? 2 * l.pp - 1 - s : c * l.pp + s, num_pieces);
      const PieceMemory m = piece_memory(table, pieces[c]);
      const double n = in_flight_at_least(setting, s, micro_batches);
      saved += n * m.saved;
      if (known) extra = std::max(m.backward_peak - m.saved, m.forward_peak - m.saved);
    }
    const StateBytes states = state_bytes(weights, pieces, count, false);
    worst = std::max(worst, states.total() + std::max(saved + extra, states.step));
  }
  return worst * (1 + profile.fragmentation) + outside_bytes(setting, profile).total();
}

}  // namespace trireme::sim
