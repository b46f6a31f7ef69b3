#include "plan/group_kind.h"

#include <stdexcept>

#include <nlohmann/json.hpp>

namespace trireme::plan {

std::string name_of(const GroupKind& kind) {
  if (kind == world_group) return "world";
  return kind.embedding ? "embedding" : name_of(kind.axes);
}

void to_json(nlohmann::json& j, const GroupKind& kind) {
  j = name_of(kind);
}

void from_json(const nlohmann::json& j, GroupKind& kind) {
  const auto name = j.get<std::string>();
  if (name == "world" || name == "embedding") {
    kind = name == "world" ? world_group : embedding_group;
    return;
  }
  try {
    Axes axes;
    for (const Axis axis : axes_in_order(name)) axes = axes | axis;
    kind = axes;
  } catch (const std::invalid_argument& e) {
    throw nlohmann::json::other_error::create(501, std::string("group: ") + e.what(), &j);
  }
}

}  // namespace trireme::plan
