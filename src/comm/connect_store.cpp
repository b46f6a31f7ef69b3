#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/errors.h"
#include "comm/error_text.h"
#include "comm/launch_env.h"

namespace trireme::comm {

c10::intrusive_ptr<c10d::Store> rank_keys(const c10::intrusive_ptr<c10d::Store>& store, int attempt) {
  return c10::make_intrusive<c10d::PrefixStore>(fmt::format("trireme/{}", attempt), store);
}

c10::intrusive_ptr<c10d::Store> connect_store(const LaunchEnv& env, std::chrono::milliseconds timeout) {
  if (!env.libtorch_log) FLAGS_caffe2_log_level = 3;  // fatal only
  if (env.world == 1) return rank_keys(c10::make_intrusive<c10d::HashStore>(), env.attempt);
  try {
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(env.master_port);
    options.isServer = env.serves_store;
    options.waitWorkers = false;  // ranks meet when they make their groups
    options.timeout = timeout;
    return rank_keys(c10::make_intrusive<c10d::TCPStore>(env.master_addr, options), env.attempt);
  } catch (const std::exception& error) {
    throw RuntimeFailure({.operation = fmt::format("{} the store at {}:{}", env.serves_store ? "serve" : "connect to",
                                                   env.master_addr, env.master_port),
                          .reason = error_text(error)});
  }
}

}  // namespace trireme::comm
