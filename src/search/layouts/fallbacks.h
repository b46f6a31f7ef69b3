// Which states are worth a look only where others do not fit in memory.
#pragma once
#include <vector>

#include "search/layouts/layout_space.h"

namespace trireme::search {

// Where a layout fits, those that only save memory are no faster: swapping, exposing what could overlap, and sharding
// gradients, too. They are opened when it does not fit. By place: which layout's states these are a fallback of; -1: of
// none.
std::vector<int> fallbacks_of(const std::vector<States>& states);

}  // namespace trireme::search
