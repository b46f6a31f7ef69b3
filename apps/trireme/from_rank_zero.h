// What rank 0 finds out and all ranks of a launch then have, so that all run one value whatever files they see.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "comm/group.h"
#include "plan/run_spec.h"

namespace trireme::apps {

// Thrown on the other ranks where rank 0 has met bad input: it says so.
struct RankZeroRefused {};

// Rank 0 calls `make`, whose object the others get (a ConfigError of it is thrown on there when they have heard of it). They
// wait as long as it takes; only a death ends that, with a RuntimeFailure that says they waited for `what`. On rank 0 the
// value that `make` gave; it must not be null.
nlohmann::json from_rank_zero(const std::string& what, int rank, comm::Communicator& communicator, c10d::Store& store,
                              const std::function<nlohmann::json()>& make);

// How many ranks each host has, in order of rank. Nothing where the ranks of a host are not consecutive, which only
// patterns that know nodes mind: then a ConfigError.
std::vector<int> ranks_of_hosts(const plan::RunSpec& run, comm::Communicator& communicator);

}  // namespace trireme::apps
