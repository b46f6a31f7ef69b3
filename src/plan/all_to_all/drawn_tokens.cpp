#include "plan/all_to_all/drawn_tokens.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/rng.h"

namespace trireme::plan {

namespace {
constexpr int rows_a_pair = 8;
}

DrawnTokens draw_tokens(const TokenDraw& draw) {
  DrawnTokens out;
  const int rows = std::max(1, std::min(rows_a_pair, static_cast<int>(draw.bytes_per_pair / 4)));
  out.tokens = std::max(1, (draw.members * rows + draw.top_k - 1) / draw.top_k);
  out.row_bytes = std::max(1.0, std::round(draw.bytes_per_pair * draw.members / (4.0 * out.tokens * draw.top_k))) * 4;
  const auto experts = static_cast<std::uint64_t>(draw.per_member()) * static_cast<std::uint64_t>(draw.members);
  for (int m = 0; m < draw.members; ++m) {
    auto& tokens = out.experts.emplace_back();
    const std::uint64_t key = stream_key(draw.seed, "member " + std::to_string(m));
    std::uint64_t drawn = 0;
    for (int t = 0; t < out.tokens; ++t) {
      auto& slots = tokens.emplace_back();
      while (static_cast<int>(slots.size()) < draw.top_k) {
        const int e = static_cast<int>(random_bits(key, drawn++) % experts);
        if (std::find(slots.begin(), slots.end(), e) == slots.end()) slots.push_back(e);
      }
    }
  }
  return out;
}

}  // namespace trireme::plan
