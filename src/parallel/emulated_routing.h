// What the routers of a rehearsal decide: how many rows of a micro-batch go to each expert is given, and which tokens' they
// are is made up.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "nn/boundary.h"

namespace trireme::parallel {

// Only what patterns that move rows as they are need: the counts.
std::shared_ptr<const nn::Routing> counted_routing(std::vector<std::int64_t> rows_E);

// With an order of rows too, for patterns that move tokens. A token's experts differ, and how many of them lie together
// on a rank or node is as if they had been drawn: `key` shuffles the experts. rows_E: `tokens` x top-k in all, none above
// `tokens`.
std::shared_ptr<const nn::Routing> dealt_routing(const std::vector<std::int64_t>& rows_E, std::int64_t tokens,
                                                 std::uint64_t key);

}  // namespace trireme::parallel
