#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "plan/pipeline/schedule.h"

namespace trireme::plan {

namespace {

struct Message {
  int mb = 0, piece = 0;  // the piece that it is for
  Slot slot;              // that makes it, or needs it
};

struct Way {
  std::vector<Message> sent, taken;
};

}  // namespace

std::vector<ScheduleProblem> crossed_messages(const Schedule& s) {
  const int pieces = num_pieces(s);
  std::vector<int> stage_of(static_cast<std::size_t>(pieces));
  for (int stage = 0; stage < s.num_stages; ++stage)
    for (int chunk = 0; chunk < s.num_chunks; ++chunk)
      if (const int piece = piece_of(s, stage, chunk); piece >= 0) stage_of[piece] = stage;
  std::map<std::tuple<int, int, bool>, Way> ways;  // from, to, whether forward
  for (int stage = 0; stage < s.num_stages; ++stage)
    for (const Slot& slot : s.rows[stage]) {
      if (slot.kind == SlotKind::no_op || slot.kind == SlotKind::weight_gradient) continue;
      const bool forward = slot.kind == SlotKind::forward;
      const int piece = piece_of(s, stage, slot.chunk), before = forward ? piece - 1 : piece + 1,
                after = forward ? piece + 1 : piece - 1;
      const auto other = [&](int p) { return p >= 0 && p < pieces && stage_of[p] != stage; };
      if (other(before)) ways[{stage_of[before], stage, forward}].taken.push_back({slot.mb, piece, slot});
      if (other(after)) ways[{stage, stage_of[after], forward}].sent.push_back({slot.mb, after, slot});
    }
  std::vector<ScheduleProblem> out;
  for (const auto& [key, way] : ways) {
    const auto& [from, to, forward] = key;
    for (std::size_t i = 0; i < std::min(way.sent.size(), way.taken.size()); ++i) {
      const Message &sent = way.sent[i], &taken = way.taken[i];
      if (sent.mb == taken.mb && sent.piece == taken.piece) continue;
      out.push_back(
          {to, fmt::format(
                   "stage {}: {} needs a message from stage {} that it gets after another one, which {} there sends "
                   "first: messages between two stages are taken in the order in which they are sent",
                   to, to_text(taken.slot), from, to_text(sent.slot))});
      break;
    }
  }
  return out;
}

}  // namespace trireme::plan
