// Bytes that live on from one exchange to the next, so that no exchange has to ask the system for memory.
#pragma once
#include <deque>

#include <ATen/core/Tensor.h>

namespace trireme::comm {

class RowBuffers {
 public:
  // Contiguous bytes on `device`, of undefined contents, until the next release_all().
  at::Tensor take(std::int64_t bytes, at::Device device);
  void release_all() { used_ = 0; }

 private:
  std::deque<at::Tensor> buffers_;  // in the order of taking: exchanges repeat themselves
  std::size_t used_ = 0;
};

}  // namespace trireme::comm
