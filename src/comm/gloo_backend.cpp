// The only file that sees Gloo's headers. They come from the distribution and are older than the Gloo inside libtorch:
// nothing of GlooStore or gloo::Context is called here, only c10d's exported functions.
#include <csignal>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "comm/backend.h"

namespace trireme::comm {
namespace {

constexpr int abort_tag = 0x7ab07;  // a tag that no operation of ours uses

class GlooMaker final : public BackendMaker {
 public:
  GlooMaker(const NetworkChoice& network, std::chrono::milliseconds timeout) : timeout_(timeout) {
    using c10d::ProcessGroupGloo;
    // Gloo writes to its sockets so that one whose peer has just died raises SIGPIPE, which would end this rank without
    // a word. Ignored, the write fails, and the failure is told as any other.
    std::signal(SIGPIPE, SIG_IGN);
    if (!network.interface.empty()) {
      device_ = ProcessGroupGloo::createDeviceForInterface(network.interface);
    } else if (!network.address.empty()) {
      device_ = ProcessGroupGloo::createDeviceForHostname(network.address);
    } else {
      device_ = ProcessGroupGloo::createDefaultDevice();
    }
  }

  c10::intrusive_ptr<c10d::Backend> make(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size) override {
    auto options = c10d::ProcessGroupGloo::Options::create(timeout_);
    options->devices = {device_};
    options->threads = 1;
    return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
  }

  void abort(c10d::Backend& backend) override {
    // Gloo has no abort. But a receive that times out closes all connections of its group, which ends every operation
    // pending there, on this rank at once and on its peers when they see the connection closed.
    // Where the connection to a peer is broken already the receive throws at once and closes nothing: so each is tried.
    for (int peer = 0; peer < backend.getSize(); ++peer) {
      if (peer == backend.getRank()) continue;
      try {
        std::vector<at::Tensor> nothing{at::empty({1}, at::kByte)};
        backend.recv(nothing, peer, abort_tag)->wait(std::chrono::milliseconds(1));
      } catch (const std::exception&) {
        // The time-out, or a broken connection.
      }
    }
  }

 private:
  std::chrono::milliseconds timeout_;
  std::shared_ptr<::gloo::transport::Device> device_;
};

}  // namespace

std::unique_ptr<BackendMaker> make_gloo(const NetworkChoice& network, std::chrono::milliseconds timeout) {
  return std::make_unique<GlooMaker>(network, timeout);
}

}  // namespace trireme::comm
