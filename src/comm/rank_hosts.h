// Which host every rank is on.
#pragma once
#include <string>
#include <vector>

#include <c10/util/intrusive_ptr.h>

namespace c10d {
class Store;
}

namespace trireme::comm {

// Collective over the ranks of the store: host_identity() of each, by rank. Once for a prefix.
// Throws what the store throws.
std::vector<std::string> rank_hosts(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world,
                                    const std::string& prefix);

}  // namespace trireme::comm
