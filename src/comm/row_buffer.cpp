#include "comm/row_buffer.h"

#include <ATen/ATen.h>

#include "base/errors.h"

namespace trireme::comm {

at::Tensor part_of(const at::Tensor& bytes, std::int64_t offset, std::int64_t size) {
  TRIREME_CHECK(offset >= 0 && size >= 0 && offset + size <= bytes.numel(), "{} bytes from {} of {}", size, offset,
                bytes.numel());
  auto part = c10::make_intrusive<at::TensorImpl>(c10::Storage(bytes.storage()), bytes.key_set(), bytes.dtype());
  part->set_storage_offset(bytes.storage_offset() + offset);
  part->set_sizes_contiguous({size});
  return at::Tensor(std::move(part));
}

at::Tensor RowBuffers::take(std::int64_t bytes, at::Device device) {
  if (used_ == buffers_.size()) buffers_.emplace_back();
  at::Tensor& buffer = buffers_[used_++];
  if (!buffer.defined() || buffer.numel() < bytes || buffer.device() != device)
    buffer = at::empty({bytes}, at::TensorOptions(at::kByte).device(device));
  return part_of(buffer, 0, bytes);
}

}  // namespace trireme::comm
