#include "plan/lowering/draft.h"

#include <algorithm>

#include "base/errors.h"

namespace trireme::plan {

int Draft::add_buffer(Buffer buffer) {
  buffers.push_back(buffer);
  return static_cast<int>(buffers.size()) - 1;
}

DraftAction Draft::make(Action action, int slot) {
  action.id = next_id++;
  return {std::move(action), slot};
}

Neighbours neighbours_of(const Schedule& schedule, int stage) {
  std::vector<std::pair<int, int>> holder(num_pieces(schedule) + 2, {-1, -1});  // by piece + 1
  for (int s = 0; s < schedule.num_stages; ++s)
    for (int chunk = 0; chunk < schedule.num_chunks; ++chunk)
      if (const int piece = piece_of(schedule, s, chunk); piece >= 0) holder.at(piece + 1) = {s, chunk};
  Neighbours out;
  for (int chunk = 0; chunk < schedule.num_chunks; ++chunk) {
    const int piece = piece_of(schedule, stage, chunk);
    out.previous.push_back(piece < 0 ? std::pair{-1, -1} : holder[piece]);
    out.next.push_back(piece < 0 ? std::pair{-1, -1} : holder[piece + 2]);
  }
  return out;
}

std::vector<Place> places(const model::ModelSpec& model, const Chunk& chunk) {
  std::vector<Place> out;
  if (chunk.embed) out.push_back({Segment::embed, -1});
  for (int layer = chunk.first_layer; layer < chunk.first_layer + chunk.num_layers; ++layer)
    for (const Segment segment : model::computing_segments(model, layer)) out.push_back({segment, layer});
  if (chunk.head) out.push_back({Segment::head, -1});
  return out;
}

StagePlan finish(Draft draft) {
  StagePlan out{.chunks = std::move(draft.chunks), .buffers = std::move(draft.buffers),
                .buckets = std::move(draft.buckets)};
  std::vector<int> number(static_cast<std::size_t>(draft.next_id), -1);  // by draft id: place
  for (std::size_t i = 0; i < draft.actions.size(); ++i) number[draft.actions[i].action.id] = static_cast<int>(i);
  std::vector<int> filled_by(out.buffers.size(), -1);
  out.actions.reserve(draft.actions.size());
  for (DraftAction& a : draft.actions) {
    Action action = std::move(a.action);
    action.id = number.at(action.id);
    for (int& wait : action.waits) {
      wait = number.at(wait);
      TRIREME_CHECK(wait >= 0, "{} waits for an action that was dropped", describe(action));
    }
    for (int buffer : action.reads)
      if (filled_by[buffer] >= 0 && out.actions[filled_by[buffer]].lane != action.lane)
        action.waits.push_back(filled_by[buffer]);
    for (int buffer : action.allocates) filled_by[buffer] = action.id;
    std::sort(action.waits.begin(), action.waits.end());
    action.waits.erase(std::unique(action.waits.begin(), action.waits.end()), action.waits.end());
    out.actions.push_back(std::move(action));
  }
  return out;
}

}  // namespace trireme::plan
