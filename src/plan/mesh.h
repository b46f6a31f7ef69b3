// The mesh of ranks. world = pp * dp; ep lies inside dp (the attention of an ep group is data-parallel), and
// edp = dp / ep ranks hold the same experts. rank = pp_index * dp + edp_index * ep + ep_index: neighbours in rank share
// experts' all-to-all, the fastest links.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"


namespace trireme::plan {

enum class Axis {
  world,
  pp,         // one rank of each stage, the same place in dp
  dp,         // all ranks of a stage: dense gradients
  ep,         // ranks that share the experts of a stage: all-to-all
  edp,        // ranks of a stage with the same experts: expert gradients
  embedding,  // first and last stage, the same place in dp: gradient of tied embeddings
};
TRIREME_JSON(Axis)
const char* name_of(Axis axis);

struct Mesh {
  int pp = 1;
  int dp = 1;
  int ep = 1;  // divides dp
  // Where the ranks are: of each host, in order of rank. Empty: all on one, or nobody knows.
  std::vector<int> ranks_of_host;
  int hosts_per_group = 0;  // hosts that share a switch, in order; 0: the fabric has no such level
  bool operator==(const Mesh&) const = default;

  int world() const { return pp * dp; }
  int host(int rank) const;
  int edp() const { return dp / ep; }
  int pp_index(int rank) const { return rank / dp; }
  int dp_index(int rank) const { return rank % dp; }
  int ep_index(int rank) const { return rank % dp % ep; }
  int edp_index(int rank) const { return rank % dp / ep; }
  int rank(int pp_index, int dp_index) const { return pp_index * dp + dp_index; }

  // Global ranks of the group of `axis` that `rank` is in, ascending. `embedding` of a middle stage is the rank alone.
  std::vector<int> group(Axis axis, int rank) const;
  // All groups of an axis, by their first member: every rank creates process groups in this order.
  std::vector<std::vector<int>> groups(Axis axis) const;
};
// Hosts are only written where they are known.
void to_json(nlohmann::json& j, const Mesh& mesh);
void from_json(const nlohmann::json& j, Mesh& mesh);

// `world` ranks, ranks_per_host on each host, fewer on the last; empty where that is one host or ranks_per_host is 0.
std::vector<int> even_hosts(int world, int ranks_per_host);

}  // namespace trireme::plan
