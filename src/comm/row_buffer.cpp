#include "comm/row_buffer.h"

#include <ATen/ATen.h>

namespace trireme::comm {

at::Tensor RowBuffers::take(std::int64_t bytes, at::Device device) {
  if (used_ == buffers_.size()) buffers_.emplace_back();
  at::Tensor& buffer = buffers_[used_++];
  if (!buffer.defined() || buffer.numel() < bytes || buffer.device() != device)
    buffer = at::empty({bytes}, at::TensorOptions(at::kByte).device(device));
  return buffer.narrow(0, 0, bytes);
}

}  // namespace trireme::comm
