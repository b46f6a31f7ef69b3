// The store in which the ranks of a run meet, beat and agree: a server of c10d's TCPStore, run by the launcher or by
// rank 0, and a connection of each rank.
#pragma once
#include <chrono>
#include <functional>
#include <string>

#include <c10/util/intrusive_ptr.h>

#include "comm/launch_env.h"
#include "comm/store_address.h"

namespace c10d {
class Store;
class TCPStore;
}  // namespace c10d

namespace trireme::comm {

// A view of a bare store with the prefix under which the ranks of one attempt of one run keep their keys.
c10::intrusive_ptr<c10d::Store> rank_keys(const c10::intrusive_ptr<c10d::Store>& store, const std::string& token,
                                          int attempt);

// The store of the run, one client connection; in memory for a single rank. Rank 0 serves it, where no launcher does,
// at MASTER_ADDR only. RuntimeFailure with the reason where it cannot be reached within the time-out. Keys live under
// rank_keys(). `say` gets what a user should know meanwhile. Unless env.libtorch_log, libtorch's own log of failing
// connections (with backtraces, before our one line) is turned off for the process.
c10::intrusive_ptr<c10d::Store> connect_store(const LaunchEnv& env, std::chrono::milliseconds timeout,
                                              const Say& say = {});

// A server on a free port of the loopback interface: nobody else on the network is to write there.
c10::intrusive_ptr<c10d::TCPStore> serve_local_store();

// Why waiting for another rank is in vain (it is known to be dead); empty while all are alive.
using InVain = std::function<std::string()>;

// The same store, in which every wait for a key, c10d's and Gloo's own included, ends at once with an error when
// `in_vain` says why; else by the time-out of the wait. A wait asks again and again and holds no lock meanwhile.
c10::intrusive_ptr<c10d::Store> watched(const c10::intrusive_ptr<c10d::Store>& store, InVain in_vain);

// Where the launcher has not said it (LaunchEnv::local_known), the ranks find out over the store which of them share a
// host. Collective over the world then; returns the completed environment. Throws what the store throws.
LaunchEnv with_local_ranks(LaunchEnv env, const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace trireme::comm
