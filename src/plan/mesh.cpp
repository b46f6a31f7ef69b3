#include "plan/mesh.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/errors.h"

namespace trireme::plan {

const char* name_of(Axis axis) {
  switch (axis) {
    case Axis::world:
      return "world";
    case Axis::pp:
      return "pp";
    case Axis::dp:
      return "dp";
    case Axis::ep:
      return "ep";
    case Axis::edp:
      return "edp";
    case Axis::embedding:
      return "embedding";
  }
  return "?";
}

int Mesh::host(int rank) const {
  int host = 0, last = 0;
  for (const int ranks : ranks_of_host) {
    last += ranks;
    if (rank < last) return host;
    ++host;
  }
  TRIREME_CHECK(ranks_of_host.empty(), "rank {} is on none of {} hosts", rank, ranks_of_host.size());
  return 0;
}

void to_json(nlohmann::json& j, const Mesh& mesh) {
  j = {{"pp", mesh.pp}, {"dp", mesh.dp}, {"ep", mesh.ep}};
  if (!mesh.ranks_of_host.empty()) j["ranks_of_host"] = mesh.ranks_of_host;
  if (mesh.hosts_per_group > 0) j["hosts_per_group"] = mesh.hosts_per_group;
}

void from_json(const nlohmann::json& j, Mesh& mesh) {
  mesh = {.pp = j.at("pp"), .dp = j.at("dp"), .ep = j.at("ep")};
  mesh.ranks_of_host = j.value("ranks_of_host", std::vector<int>());
  mesh.hosts_per_group = j.value("hosts_per_group", 0);
}

std::vector<int> even_hosts(int world, int ranks_per_host) {
  std::vector<int> out;
  if (ranks_per_host <= 0 || ranks_per_host >= world) return out;
  for (int first = 0; first < world; first += ranks_per_host) out.push_back(std::min(ranks_per_host, world - first));
  return out;
}

std::vector<int> Mesh::group(Axis axis, int rank_in) const {
  TRIREME_CHECK(rank_in >= 0 && rank_in < world(), "rank {} of {}", rank_in, world());
  const int stage = pp_index(rank_in), place = dp_index(rank_in);
  std::vector<int> out;
  switch (axis) {
    case Axis::world:
      for (int r = 0; r < world(); ++r) out.push_back(r);
      break;
    case Axis::pp:
      for (int s = 0; s < pp; ++s) out.push_back(rank(s, place));
      break;
    case Axis::dp:
      for (int d = 0; d < dp; ++d) out.push_back(rank(stage, d));
      break;
    case Axis::ep:
      for (int e = 0; e < ep; ++e) out.push_back(rank(stage, edp_index(rank_in) * ep + e));
      break;
    case Axis::edp:
      for (int e = 0; e < edp(); ++e) out.push_back(rank(stage, e * ep + ep_index(rank_in)));
      break;
    case Axis::embedding:
      if (pp > 1 && (stage == 0 || stage == pp - 1))
        out = {rank(0, place), rank(pp - 1, place)};
      else
        out = {rank_in};
      break;
  }
  return out;
}

std::vector<std::vector<int>> Mesh::groups(Axis axis) const {
  std::vector<std::vector<int>> out;
  for (int r = 0; r < world(); ++r)
    if (auto members = group(axis, r); members.front() == r) out.push_back(std::move(members));
  return out;
}

}  // namespace trireme::plan
