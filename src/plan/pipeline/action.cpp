#include "plan/pipeline/action.h"

#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace trireme::plan {

namespace {

template <class Enum>
const char* json_name(Enum value) {
  // The JSON names are the only table; a static copy of each keeps the pointer alive.
  thread_local std::map<int, std::string> names;
  auto [at, fresh] = names.try_emplace(static_cast<int>(value));
  if (fresh) at->second = nlohmann::json(value).template get<std::string>();
  return at->second.c_str();
}

}  // namespace

const char* name_of(Lane lane) { return json_name(lane); }
const char* name_of(ActionKind kind) { return json_name(kind); }

std::string describe(const Action& a) {
  std::string out = name_of(a.kind);
  const bool both_ways = a.kind == ActionKind::all_to_all || a.kind == ActionKind::send || a.kind == ActionKind::receive;
  if (both_ways) out += a.pass == Pass::forward ? " forward" : " backward";
  if (a.segment != Segment::none) out += fmt::format(" {}", model::name_of(a.segment));
  if (a.mb >= 0) out += fmt::format(" mb {}", a.mb);
  const bool of_chunk = a.segment == Segment::none && !both_ways;
  if (of_chunk && a.chunk >= 0) out += fmt::format(" chunk {}", a.chunk);
  if (a.backward_mb >= 0) out += fmt::format(" with backward mb {} chunk {}", a.backward_mb, a.backward_chunk);
  if (a.layer >= 0) out += fmt::format(" layer {}", a.layer);
  if (a.bucket >= 0) out += fmt::format(" bucket {}", a.bucket);
  if (a.peer_stage >= 0) out += fmt::format(" {} stage {}", a.kind == ActionKind::send ? "to" : "from", a.peer_stage);
  return out;
}

void to_json(nlohmann::json& j, const Buffer& b) {
  j = {{"kind", b.kind}, {"segment", b.segment}, {"message", b.message}, {"mb", b.mb}, {"chunk", b.chunk}, {"layer", b.layer}};
  if (b.to_shared) j["to_shared"] = true;
}

void from_json(const nlohmann::json& j, Buffer& b) {
  b = Buffer{};
  j.at("kind").get_to(b.kind);
  j.at("segment").get_to(b.segment);
  j.at("message").get_to(b.message);
  j.at("mb").get_to(b.mb);
  j.at("chunk").get_to(b.chunk);
  j.at("layer").get_to(b.layer);
  b.to_shared = j.value("to_shared", false);
}

void to_json(nlohmann::json& j, const Action& a) {
  j = {{"id", a.id},       {"kind", a.kind},   {"pass", a.pass == Pass::forward ? "forward" : "backward"},
       {"lane", a.lane},   {"waits", a.waits}, {"reads", a.reads},
       {"allocates", a.allocates}, {"frees", a.frees}};
  if (a.segment != Segment::none) j["segment"] = a.segment;
  if (a.mb >= 0) j["mb"] = a.mb;
  if (a.chunk >= 0) j["chunk"] = a.chunk;
  if (a.backward_mb >= 0) j["backward_mb"] = a.backward_mb, j["backward_chunk"] = a.backward_chunk;
  if (a.layer >= 0) j["layer"] = a.layer;
  if (a.group != world_group) j["group"] = a.group;
  if (a.peer_stage >= 0) j["peer_stage"] = a.peer_stage;
  if (a.bucket >= 0) j["bucket"] = a.bucket;
}

void from_json(const nlohmann::json& j, Action& a) {
  a = Action{};
  j.at("id").get_to(a.id);
  j.at("kind").get_to(a.kind);
  a.pass = j.at("pass").get<std::string>() == "forward" ? Pass::forward : Pass::backward;
  j.at("lane").get_to(a.lane);
  j.at("waits").get_to(a.waits);
  j.at("reads").get_to(a.reads);
  j.at("allocates").get_to(a.allocates);
  j.at("frees").get_to(a.frees);
  a.segment = j.value("segment", Segment::none);
  a.mb = j.value("mb", -1);
  a.chunk = j.value("chunk", -1);
  a.backward_mb = j.value("backward_mb", -1);
  a.backward_chunk = j.value("backward_chunk", -1);
  a.layer = j.value("layer", -1);
  a.group = j.value("group", world_group);
  a.peer_stage = j.value("peer_stage", -1);
  a.bucket = j.value("bucket", -1);
}

}  // namespace trireme::plan
