#include <stdexcept>

#include <nlohmann/json.hpp>

#include "plan/mesh.h"

namespace trireme::plan {

void to_json(nlohmann::json& j, const Mesh& mesh) {
  j = {{"pp", mesh.pp}, {"dp", mesh.dp}, {"ep", mesh.ep}};
  if (mesh.cp != 1) j["cp"] = mesh.cp;
  if (mesh.tp != 1) j["tp"] = mesh.tp;
  if (mesh.etp != 1) j["etp"] = mesh.etp;
  if (mesh.order != default_order) j["order"] = to_text(mesh.order);
  if (!mesh.expert_order.empty()) j["expert_order"] = to_text(mesh.expert_order);
  if (!mesh.ranks_of_host.empty()) j["ranks_of_host"] = mesh.ranks_of_host;
  if (mesh.hosts_per_group > 0) j["hosts_per_group"] = mesh.hosts_per_group;
}

void from_json(const nlohmann::json& j, Mesh& mesh) {
  mesh = {.pp = j.at("pp"), .dp = j.at("dp"), .ep = j.at("ep")};
  mesh.cp = j.value("cp", 1);
  mesh.tp = j.value("tp", 1);
  mesh.etp = j.value("etp", 1);
  try {
    mesh.order = order_from_text(j.value("order", to_text(default_order)));
    mesh.expert_order = expert_order_from_text(j.value("expert_order", ""));
  } catch (const std::invalid_argument& e) {
    throw nlohmann::json::other_error::create(501, std::string("mesh: ") + e.what(), &j);
  }
  mesh.ranks_of_host = j.value("ranks_of_host", std::vector<int>());
  mesh.hosts_per_group = j.value("hosts_per_group", 0);
}

}  // namespace trireme::plan
