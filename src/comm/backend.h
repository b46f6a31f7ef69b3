// How a group gets its c10d backend: Gloo on CPU, NCCL on CUDA. One maker a rank, so that its groups share what can be
// shared (Gloo: one device, that is one socket thread).
#pragma once
#include <chrono>
#include <memory>

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include "comm/network.h"

namespace c10d {
class Store;
class Backend;
}  // namespace c10d

namespace trireme::comm {

class BackendMaker {
 public:
  virtual ~BackendMaker() = default;
  // Collective over the group's members; `store` has a prefix of the group's own. Throws c10d's or Gloo's errors.
  virtual c10::intrusive_ptr<c10d::Backend> make(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size) = 0;
  // Ends the backend's pending operations with an error, from any thread.
  virtual void abort(c10d::Backend& backend) = 0;
};

// From here on this process ignores SIGPIPE.
std::unique_ptr<BackendMaker> make_gloo(const NetworkChoice& network, std::chrono::milliseconds timeout);
// ConfigError (key device.device) where this build has no NCCL.
std::unique_ptr<BackendMaker> make_nccl(c10::Device device, std::chrono::milliseconds timeout);

}  // namespace trireme::comm
