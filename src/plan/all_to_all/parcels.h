// Puts members that a generator finds one by one into progressions.
#pragma once
#include <vector>

#include "plan/all_to_all/members.h"

namespace trireme::plan {

// Ascending members as few progressions, in order.
std::vector<Members> progressions(const std::vector<int>& members);

}  // namespace trireme::plan
