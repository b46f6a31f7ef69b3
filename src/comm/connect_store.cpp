#include "comm/connect_store.h"

#include <unistd.h>

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/errors.h"
#include "comm/error_text.h"
#include "comm/rank_hosts.h"

namespace trireme::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

c10::intrusive_ptr<c10d::TCPStore> serve(const Listener& listener, milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(listener.port);
  options.isServer = true;
  options.waitWorkers = false;  // ranks meet when they make their groups
  options.timeout = timeout;
  options.masterListenFd = listener.fd;  // taken over
  return c10::make_intrusive<c10d::TCPStore>(listener.address, options);
}

}  // namespace

c10::intrusive_ptr<c10d::Store> rank_keys(const c10::intrusive_ptr<c10d::Store>& store, const std::string& token,
                                          int attempt) {
  return c10::make_intrusive<c10d::PrefixStore>(fmt::format("trireme/{}/{}", token, attempt), store);
}

c10::intrusive_ptr<c10d::Store> connect_store(const LaunchEnv& env, milliseconds timeout, const Say& say) {
  if (!env.libtorch_log) FLAGS_caffe2_log_level = 3;  // fatal only
  if (env.world == 1) return rank_keys(c10::make_intrusive<c10d::HashStore>(), env.token, env.attempt);
  const auto end = Clock::now() + timeout;
  try {
    if (env.serves_store) {
      const bool several_hosts = !env.local_known || env.local_world < env.world;
      const Listener listener = listen_at(env.master_addr, env.master_port, several_hosts, timeout);
      if (say && !listener.note.empty()) say(listener.note);
      return rank_keys(serve(listener, timeout), env.token, env.attempt);
    }
    const std::string address = reach(env.master_addr, env.master_port, timeout, say);
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(env.master_port);
    options.waitWorkers = false;
    options.timeout = std::max(milliseconds(1000), std::chrono::duration_cast<milliseconds>(end - Clock::now()));
    auto store = c10::make_intrusive<c10d::TCPStore>(address, options);
    store->setTimeout(timeout);
    return rank_keys(store, env.token, env.attempt);
  } catch (const RuntimeFailure&) {
    throw;
  } catch (const std::exception& error) {
    throw RuntimeFailure({.operation = fmt::format("{} the store at {}:{}", env.serves_store ? "serve" : "connect to",
                                                   env.master_addr, env.master_port),
                          .reason = error_text(error)});
  }
}

c10::intrusive_ptr<c10d::TCPStore> serve_local_store() {
  return serve(listen_at("127.0.0.1", 0, false, milliseconds(1000)), c10d::Store::kDefaultTimeout);
}

LaunchEnv with_local_ranks(LaunchEnv env, const c10::intrusive_ptr<c10d::Store>& store) {
  if (env.local_known) return env;
  const std::vector<std::string> hosts = rank_hosts(store, env.rank, env.world, "local");
  const std::string& mine = hosts[static_cast<std::size_t>(env.rank)];
  env.local_world = static_cast<int>(std::count(hosts.begin(), hosts.end(), mine));
  env.local_rank = static_cast<int>(std::count(hosts.begin(), hosts.begin() + env.rank, mine));
  env.local_known = true;
  return env;
}

}  // namespace trireme::comm
