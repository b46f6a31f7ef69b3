#include "counts.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/rng.h"

namespace trireme::simgrid_bench {

plan::UniformRouting balanced_counts(const plan::NodeShape& shape) {
  return plan::UniformRouting(shape.size(), static_cast<double>(shape.size()) / top_k, std::max(256, shape.size()),
                              top_k);
}

std::unique_ptr<plan::TokenRoutes> skewed_counts(const plan::NodeShape& shape, int rows, std::uint64_t seed) {
  const auto members = static_cast<std::size_t>(shape.size());
  std::vector<float> normal(members);
  random_normal(stream_key(seed, "weights"), 0, normal, 0, 0.5);
  std::vector<double> up_to(members);
  std::transform(normal.begin(), normal.end(), up_to.begin(), [](float z) { return std::exp(static_cast<double>(z)); });
  std::partial_sum(up_to.begin(), up_to.end(), up_to.begin());
  const std::uint64_t key = stream_key(seed, "tokens");
  std::uint64_t drawn = 0;
  const auto tokens = members * static_cast<std::size_t>(rows) / top_k;
  plan::TokenRoutes::Slots slots(members, std::vector<std::vector<int>>(tokens));
  for (auto& of_member : slots)
    for (auto& token : of_member)
      while (token.size() < static_cast<std::size_t>(top_k)) {
        const double at = random_uniform(key, drawn++) * up_to.back();
        const int member = static_cast<int>(std::upper_bound(up_to.begin(), up_to.end(), at) - up_to.begin());
        if (std::find(token.begin(), token.end(), member) == token.end()) token.push_back(member);
      }
  return std::make_unique<plan::TokenRoutes>(shape, slots);
}

}  // namespace trireme::simgrid_bench
