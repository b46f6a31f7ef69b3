#include "parallel/emulated_routing.h"

#include <algorithm>
#include <numeric>

#include <ATen/Functions.h>

#include "base/errors.h"
#include "base/rng.h"
#include "nn/router.h"

namespace trireme::parallel {

std::shared_ptr<const nn::Routing> counted_routing(std::vector<std::int64_t> rows_E) {
  auto out = std::make_shared<nn::Routing>();
  out->counts_E = std::move(rows_E);
  return out;
}

std::shared_ptr<const nn::Routing> dealt_routing(const std::vector<std::int64_t>& rows_E, std::int64_t tokens,
                                                 std::uint64_t key) {
  const std::int64_t rows = std::accumulate(rows_E.begin(), rows_E.end(), std::int64_t{0});
  TRIREME_CHECK(tokens > 0 && rows % tokens == 0, "{} rows of {} tokens", rows, tokens);
  TRIREME_CHECK(*std::max_element(rows_E.begin(), rows_E.end()) <= tokens, "an expert twice for a token");
  std::vector<std::int64_t> experts(rows_E.size());
  random_permutation(key, experts);
  // All rows expert by expert, dealt to the tokens one by one, round by round: those of an expert are fewer than a round.
  const std::int64_t top_k = rows / tokens;
  at::Tensor experts_TK = at::empty({tokens, top_k}, at::kLong);
  auto* data = experts_TK.mutable_data_ptr<std::int64_t>();
  std::int64_t at = 0;
  for (const std::int64_t expert : experts)
    for (std::int64_t i = 0; i < rows_E[static_cast<std::size_t>(expert)]; ++i, ++at)
      data[at % tokens * top_k + at / tokens] = expert;
  return nn::make_routing(experts_TK, static_cast<std::int64_t>(rows_E.size()));
}

}  // namespace trireme::parallel
