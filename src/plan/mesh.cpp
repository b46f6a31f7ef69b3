#include "plan/mesh.h"

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
