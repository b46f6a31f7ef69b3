#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "plan/pipeline/schedule.h"

namespace trireme::plan {

namespace {

// No plan has more slots of a kind in a row (run_spec.h: most_layer_passes). A grid read from a file may say anything.
constexpr std::int64_t most_slots = 1 << 18;
constexpr std::size_t most_problems = 1000;

// Which kinds a stage must hold for every micro-batch and chunk: F and B, or F, I and W, or F alone.
struct Seen {
  int forward = 0, backward = 0, input = 0, weight = 0;
};

void check_pieces(const Schedule& s, std::vector<ScheduleProblem>& out) {
  if (s.pieces.empty()) return;
  const int total = num_pieces(s);
  std::vector<int> holders(total, 0);
  for (int stage = 0; stage < s.num_stages; ++stage) {
    if (static_cast<int>(s.pieces[stage].size()) != s.num_chunks) {
      out.push_back(
          {stage, fmt::format("stage {}: pieces of {} chunks, of {}", stage, s.pieces[stage].size(), s.num_chunks)});
      return;
    }
    for (int piece : s.pieces[stage])
      if (piece >= total)
        out.push_back({stage, fmt::format("stage {}: piece {} of a model of {} pieces", stage, piece, total)});
      else if (piece >= 0 && ++holders[piece] > 1)
        out.push_back({stage, fmt::format("stage {}: piece {} is held twice", stage, piece)});
  }
  if (total == 0) out.push_back({-1, "all chunks are empty"});
}

void check_pair(const Schedule& s, int stage, std::size_t i, std::vector<ScheduleProblem>& out) {
  const auto& row = s.rows[stage];
  const auto word = [&](std::size_t at) { return to_text(row[at]); };
  if (i + 1 == row.size()) {
    out.push_back({stage, fmt::format("stage {}: {} is joined with nothing", stage, word(i))});
    return;
  }
  const auto is_backward = [](SlotKind kind) { return kind == SlotKind::backward || kind == SlotKind::input_gradient; };
  const Slot &a = row[i], &b = row[i + 1];
  const bool kinds =
      (a.kind == SlotKind::forward && is_backward(b.kind)) || (b.kind == SlotKind::forward && is_backward(a.kind));
  if (!kinds || b.joined)
    out.push_back(
        {stage, fmt::format("stage {}: {}+{} can't be joined; one F and one B or I can", stage, word(i), word(i + 1))});
  else if (a.mb == b.mb && a.chunk == b.chunk)
    out.push_back(
        {stage, fmt::format("stage {}: {}+{} joins a forward with its own backward", stage, word(i), word(i + 1))});
}

void check_row(const Schedule& s, int stage, std::vector<ScheduleProblem>& out) {
  const auto& row = s.rows[stage];
  std::vector<Seen> seen(static_cast<std::size_t>(s.num_micro_batches) * s.num_chunks);
  for (std::size_t i = 0; i < row.size(); ++i) {
    const Slot& slot = row[i];
    if (slot.joined) check_pair(s, stage, i, out);
    if (slot.kind == SlotKind::no_op) continue;
    if (slot.mb < 0 || slot.mb >= s.num_micro_batches || slot.chunk < 0 || slot.chunk >= s.num_chunks) {
      out.push_back({stage, fmt::format("stage {}: {} is outside {} micro-batches and {} chunks", stage, to_text(slot),
                                        s.num_micro_batches, s.num_chunks)});
      continue;
    }
    if (piece_of(s, stage, slot.chunk) < 0)
      out.push_back({stage, fmt::format("stage {}: {} is of a chunk that is empty", stage, to_text(slot))});
    Seen& x = seen[static_cast<std::size_t>(slot.mb) * s.num_chunks + slot.chunk];
    switch (slot.kind) {
      case SlotKind::forward:
        ++x.forward;
        break;
      case SlotKind::backward:
        ++x.backward;
        break;
      case SlotKind::input_gradient:
        ++x.input;
        break;
      case SlotKind::weight_gradient:
        ++x.weight;
        break;
      case SlotKind::no_op:
        break;
    }
    if (slot.kind != SlotKind::forward && x.forward == 0)
      out.push_back({stage, fmt::format("stage {}: {} comes before its forward", stage, to_text(slot))});
    if (slot.kind == SlotKind::weight_gradient && x.input == 0)
      out.push_back({stage, fmt::format("stage {}: {} comes before its input gradient", stage, to_text(slot))});
    if (slot.kind != SlotKind::forward && s.forward_only)
      out.push_back({stage, fmt::format("stage {}: {} in a forward-only schedule", stage, to_text(slot))});
  }
  for (int mb = 0; mb < s.num_micro_batches; ++mb)
    for (int chunk = 0; chunk < s.num_chunks; ++chunk) {
      if (out.size() >= most_problems) return;
      if (piece_of(s, stage, chunk) < 0) continue;
      const Seen x = seen[static_cast<std::size_t>(mb) * s.num_chunks + chunk];
      const bool whole = x.forward == 1 && (s.forward_only || (x.backward == 1 && x.input == 0 && x.weight == 0) ||
                                            (x.backward == 0 && x.input == 1 && x.weight == 1));
      if (!whole)
        out.push_back(
            {stage,
             fmt::format("stage {}: micro-batch {} chunk {} has {} F, {} B, {} I, {} W; one F and one B (or one I and "
                         "one W) are due",
                         stage, mb, chunk, x.forward, x.backward, x.input, x.weight)});
    }
}

// Executes the grid: a slot runs when what it needs from the neighbouring piece is done, joined ones when both can.
void check_progress(const Schedule& s, std::vector<ScheduleProblem>& out) {
  const int pieces = num_pieces(s);
  const auto at_mb = [&](int piece, int mb) { return static_cast<std::size_t>(piece) * s.num_micro_batches + mb; };
  std::vector<std::uint8_t> forwards(at_mb(pieces, 0)), backwards(at_mb(pieces, 0));
  std::vector<std::size_t> at(s.num_stages, 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (int stage = 0; stage < s.num_stages; ++stage) {
      const auto& row = s.rows[stage];
      const auto piece = [&](const Slot& slot) { return piece_of(s, stage, slot.chunk); };
      const auto ready = [&](const Slot& slot) {
        if (slot.kind == SlotKind::forward) return piece(slot) == 0 || forwards[at_mb(piece(slot) - 1, slot.mb)] != 0;
        if (slot.kind == SlotKind::backward || slot.kind == SlotKind::input_gradient)
          return piece(slot) == pieces - 1 || backwards[at_mb(piece(slot) + 1, slot.mb)] != 0;
        return true;
      };
      while (at[stage] < row.size()) {
        const std::size_t first = at[stage], last = first + (row[first].joined ? 1 : 0);
        if (!ready(row[first]) || !ready(row[last])) break;
        for (std::size_t i = first; i <= last; ++i) {
          if (row[i].kind == SlotKind::forward) forwards[at_mb(piece(row[i]), row[i].mb)] = 1;
          if (row[i].kind == SlotKind::backward || row[i].kind == SlotKind::input_gradient)
            backwards[at_mb(piece(row[i]), row[i].mb)] = 1;
        }
        at[stage] = last + 1;
        moved = true;
      }
    }
  }
  for (int stage = 0; stage < s.num_stages; ++stage)
    if (at[stage] < s.rows[stage].size())
      out.push_back({stage, fmt::format("stage {} can't go on at slot {} ({}): what it needs is never made", stage,
                                        at[stage], to_text(s.rows[stage][at[stage]]))});
}

}  // namespace

std::vector<ScheduleProblem> located_problems(const Schedule& s) {
  if (s.num_stages < 1 || s.num_micro_batches < 1 || s.num_chunks < 1 ||
      static_cast<int>(s.rows.size()) != s.num_stages ||
      (!s.pieces.empty() && static_cast<int>(s.pieces.size()) != s.num_stages))
    return {{-1, fmt::format("{} rows for {} stages", s.rows.size(), s.num_stages)}};
  if (std::int64_t{s.num_micro_batches} * s.num_chunks > most_slots || std::int64_t{s.num_stages} * s.num_chunks > most_slots)
    return {
        {-1, fmt::format("{} stages of {} chunks and {} micro-batches: a grid has at most {} slots of a kind in a row",
                         s.num_stages, s.num_chunks, s.num_micro_batches, most_slots)}};
  std::vector<ScheduleProblem> out;
  check_pieces(s, out);
  if (!out.empty()) return out;
  for (int stage = 0; stage < s.num_stages; ++stage) check_row(s, stage, out);
  if (out.empty()) check_progress(s, out);
  return out;
}

std::vector<std::string> problems(const Schedule& s) {
  std::vector<std::string> out;
  for (ScheduleProblem& problem : located_problems(s)) out.push_back(std::move(problem.text));
  return out;
}

}  // namespace trireme::plan
