// Bytes that live on from one exchange to the next, so that no exchange has to ask the system for memory.
#pragma once
#include <deque>

#include <ATen/core/Tensor.h>

namespace trireme::comm {

// A part of contiguous bytes, sharing their storage. What narrow gives, without its three dispatches: an exchange makes
// one for each message.
at::Tensor part_of(const at::Tensor& bytes, std::int64_t offset, std::int64_t size);

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
