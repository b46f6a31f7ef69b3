// What a group of ranks is made by: ranks that differ in some axes of the mesh only, the two ends of tied embeddings,
// or two stages between which messages go one way.
#pragma once
#include <string>

#include "base/axis.h"
#include "base/json.h"

namespace trireme::plan {

struct GroupKind {
  Axes axes = dense_axes;  // all of them: the world
  bool embedding = false;  // first and last stage, alike in all other axes; a rank of a middle stage is alone
  // Of messages: ranks of these two stages that are alike in all other axes; a rank of another stage is alone. Each
  // pair, direction and pass has a group of its own, so that a receive which is posted early stands before no send.
  int from_stage = -1, to_stage = -1;
  bool gradients = false;  // else activations
  constexpr GroupKind() = default;
  constexpr GroupKind(Axis axis) : axes(axis) {}
  constexpr GroupKind(Axes set, bool of_embedding = false) : axes(set), embedding(of_embedding) {}
  constexpr bool of_messages() const { return from_stage >= 0; }
  constexpr auto operator<=>(const GroupKind&) const = default;
};

inline constexpr GroupKind world_group{dense_axes};
inline constexpr GroupKind embedding_group{Axis::pp, true};
constexpr GroupKind message_group(int from_stage, int to_stage, bool gradients) {
  GroupKind out = Axis::pp;
  out.from_stage = from_stage, out.to_stage = to_stage, out.gradients = gradients;
  return out;
}

// "world", "embedding", names of axes: "ep", "cp-dp"; of messages "forward 0>1" and "backward 1>0". In JSON the same;
// an unknown name is a nlohmann::json::other_error.
std::string name_of(const GroupKind& kind);
void to_json(nlohmann::json& j, const GroupKind& kind);
void from_json(const nlohmann::json& j, GroupKind& kind);

}  // namespace trireme::plan
