#include "plan/pipeline/schedule.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"

namespace trireme::plan {

int piece_of(const Schedule& s, int stage, int chunk) {
  return s.pieces.empty() ? piece_of(PieceMap::round, s.num_stages, stage, chunk) : s.pieces.at(stage).at(chunk);
}

int num_pieces(const Schedule& s) {
  if (s.pieces.empty()) return s.num_stages * s.num_chunks;
  int count = 0;
  for (const auto& of_stage : s.pieces)
    count += static_cast<int>(std::count_if(of_stage.begin(), of_stage.end(), [](int piece) { return piece >= 0; }));
  return count;
}

std::vector<std::vector<int>> v_shape(int num_stages) {
  std::vector<std::vector<int>> out;
  for (int stage = 0; stage < num_stages; ++stage)
    out.push_back({piece_of(PieceMap::v, num_stages, stage, 0), piece_of(PieceMap::v, num_stages, stage, 1)});
  return out;
}

Schedule without_pieces(const Schedule& s, const std::vector<int>& dropped) {
  const int pieces = num_pieces(s);
  std::vector<int> new_number(pieces, 0);
  for (int piece : dropped) {
    TRIREME_CHECK(piece >= 0 && piece < pieces, "piece {} of {}", piece, pieces);
    new_number[piece] = -1;
  }
  int next = 0;
  for (int& number : new_number)
    if (number == 0) number = next++;
  TRIREME_CHECK(next > 0, "no piece is left");

  Schedule out = s;
  out.pieces.assign(s.num_stages, std::vector<int>(s.num_chunks, -1));
  for (int stage = 0; stage < s.num_stages; ++stage) {
    for (int chunk = 0; chunk < s.num_chunks; ++chunk)
      if (const int piece = piece_of(s, stage, chunk); piece >= 0) out.pieces[stage][chunk] = new_number[piece];
    auto& row = out.rows[stage];
    for (std::size_t i = 0; i < row.size(); ++i)
      if (row[i].kind != SlotKind::no_op && out.pieces[stage][row[i].chunk] < 0) {
        if (i > 0) row[i - 1].joined = false;
        row[i] = {SlotKind::no_op};
      }
  }
  return out;
}

Schedule first_micro_batches(const Schedule& s, int num_micro_batches) {
  TRIREME_CHECK(num_micro_batches > 0 && num_micro_batches <= s.num_micro_batches, "{} of {} micro-batches",
                num_micro_batches, s.num_micro_batches);
  Schedule out = s;
  out.num_micro_batches = num_micro_batches;
  for (auto& row : out.rows) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (row[i].mb >= num_micro_batches) continue;
      const bool partner_stays = row[i].joined && row[i + 1].mb < num_micro_batches;
      row[kept] = row[i];
      row[kept++].joined = partner_stays;
    }
    row.resize(kept);
  }
  return out;
}

int peak_in_flight(const Schedule& s, int stage) {
  int now = 0, peak = 0, freed_later = 0;
  for (const Slot& slot : s.rows.at(stage)) {
    if (slot.kind == SlotKind::forward) peak = std::max(peak, ++now);
    // What a pair frees is free when the pair has ended, whichever of the two is named first.
    if (slot.kind == SlotKind::backward || slot.kind == SlotKind::weight_gradient) ++freed_later;
    if (!slot.joined) now -= std::exchange(freed_later, 0);
  }
  return peak;
}

}  // namespace trireme::plan
