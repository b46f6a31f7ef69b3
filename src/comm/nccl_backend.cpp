#include "base/errors.h"
#include "comm/backend.h"

#if TRIREME_WITH_NCCL
#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

namespace trireme::comm {

#if TRIREME_WITH_NCCL
namespace {

class NcclMaker final : public BackendMaker {
 public:
  NcclMaker(c10::Device device, std::chrono::milliseconds timeout) : device_(device), timeout_(timeout) {}

  c10::intrusive_ptr<c10d::Backend> make(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size) override {
    const c10::cuda::CUDAGuard guard(device_);
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = timeout_;
    auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options);
    backend->setBoundDeviceId(device_);
    // The communicator is made now, in the order in which every rank makes its groups, and not by the first operation,
    // whose order differs between lanes.
    backend->eagerConnectSingleDevice(device_);
    return backend;
  }

  void abort(c10d::Backend& backend) override { backend.abort(); }

 private:
  c10::Device device_;
  std::chrono::milliseconds timeout_;
};

}  // namespace

std::unique_ptr<BackendMaker> make_nccl(c10::Device device, std::chrono::milliseconds timeout) {
  return std::make_unique<NcclMaker>(device, timeout);
}
#else
std::unique_ptr<BackendMaker> make_nccl(c10::Device device, std::chrono::milliseconds) {
  throw ConfigError(
      {.key = "device.device",
       .value = device.str(),
       .allowed = "cpu: this build's libtorch has no NCCL (build against a CUDA or ROCm libtorch for GPUs)"});
}
#endif

}  // namespace trireme::comm
