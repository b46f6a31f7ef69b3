#include "plan/group_kind.h"

#include <charconv>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace trireme::plan {

namespace {

constexpr std::string_view activations = "forward ", gradients = "backward ";

// "0>1", of two stages; whether it is that.
bool read_stages(std::string_view text, GroupKind& out) {
  const char *at = text.data(), *end = at + text.size();
  const auto number = [&](int& value) {
    const auto [after, error] = std::from_chars(at, end, value);
    at = after;
    return error == std::errc() && value >= 0;
  };
  return number(out.from_stage) && at != end && *at++ == '>' && number(out.to_stage) && at == end &&
         out.from_stage != out.to_stage;
}

}  // namespace

std::string name_of(const GroupKind& kind) {
  if (kind == world_group) return "world";
  if (kind.of_messages())
    return fmt::format("{}{}>{}", kind.gradients ? gradients : activations, kind.from_stage, kind.to_stage);
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
  for (const std::string_view pass : {activations, gradients})
    if (name.starts_with(pass)) {
      kind = Axis::pp;
      kind.gradients = pass == gradients;
      if (read_stages(std::string_view(name).substr(pass.size()), kind)) return;
      throw nlohmann::json::other_error::create(501, "group: \"" + name + "\" is no message's: such as \"forward 0>1\"",
                                                &j);
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
