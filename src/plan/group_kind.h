// What a group of ranks is made by: ranks that differ in some axes of the mesh only, or the two ends of tied embeddings.
#pragma once
#include <string>

#include "base/axis.h"
#include "base/json.h"

namespace trireme::plan {

struct GroupKind {
  Axes axes = dense_axes;  // all of them: the world
  bool embedding = false;  // first and last stage, alike in all other axes; a rank of a middle stage is alone
  constexpr GroupKind() = default;
  constexpr GroupKind(Axis axis) : axes(axis) {}
  constexpr GroupKind(Axes set, bool of_embedding = false) : axes(set), embedding(of_embedding) {}
  constexpr auto operator<=>(const GroupKind&) const = default;
};

inline constexpr GroupKind world_group{dense_axes};
inline constexpr GroupKind embedding_group{Axis::pp, true};

// "world", "embedding", or names of axes: "ep", "cp-dp". In JSON the same; an unknown name is a nlohmann::json::other_error.
std::string name_of(const GroupKind& kind);
void to_json(nlohmann::json& j, const GroupKind& kind);
void from_json(const nlohmann::json& j, GroupKind& kind);

}  // namespace trireme::plan
