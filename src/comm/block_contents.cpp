#include "comm/block_contents.h"

#include <cstring>

#include <ATen/ATen.h>

#include "base/errors.h"

namespace trireme::comm {

namespace {

using plan::Block;

constexpr int own_store = 0, result_store = 1;

template <class Act>
void for_each_block(const OwnMessage& message, Act&& act) {
  for (const plan::Parcel& parcel : message.parcels)
    for (int s = 0; s < parcel.sources.count; ++s)
      for (int d = 0; d < parcel.destinations.count; ++d) act(Block{parcel.sources[s], parcel.destinations[d]});
}

void copy_bytes(const at::Tensor& to, std::int64_t to_offset, const at::Tensor& from, std::int64_t from_offset,
                std::int64_t size) {
  if (size == 0) return;
  if (to.is_cpu())
    std::memcpy(to.mutable_data_ptr<std::uint8_t>() + to_offset, from.const_data_ptr<std::uint8_t>() + from_offset,
                static_cast<std::size_t>(size));
  else
    to.narrow(0, to_offset, size).copy_(from.narrow(0, from_offset, size));
}

// Contiguous rows as one line of bytes.
at::Tensor as_bytes(const at::Tensor& rows) {
  if (rows.numel() == 0) return at::empty({0}, rows.options().dtype(at::kByte));
  return rows.reshape({-1}).view(at::kByte);
}

}  // namespace

BlockContents::BlockContents(const at::Tensor& rows, const BlockCounts& counts, int me, RowBuffers& buffers)
    : counts_(counts), me_(me), buffers_(buffers) {
  TRIREME_CHECK(rows.is_contiguous() && rows.dim() >= 1);
  row_bytes_ = static_cast<std::int64_t>(rows.element_size());
  for (std::int64_t dim = 1; dim < rows.dim(); ++dim) row_bytes_ *= rows.size(dim);
  const auto size = static_cast<std::size_t>(counts.size());
  from_me_.resize(size);
  to_me_.resize(size);
  result_offset_.reserve(size);
  std::int64_t offset = 0, arriving = 0;
  for (int other = 0; other < counts.size(); ++other) {
    const std::int64_t bytes = block_bytes({me, other});
    held({me, other}) = {own_store, offset, bytes};
    offset += bytes;
    result_offset_.push_back(arriving * row_bytes_);
    arriving += counts.at({other, me});
  }
  TRIREME_CHECK(offset == rows.size(0) * row_bytes_, "{} rows but counts for {}", rows.size(0), offset / row_bytes_);
  auto shape = rows.sizes().vec();
  shape[0] = arriving;
  result_ = at::empty(shape, rows.options());
  stores_ = {as_bytes(rows), as_bytes(result_)};
}

BlockContents::Piece& BlockContents::held(Block block) {
  if (block.destination == me_) return to_me_[static_cast<std::size_t>(block.source)];
  if (block.source == me_) return from_me_[static_cast<std::size_t>(block.destination)];
  return passing_[static_cast<std::int64_t>(block.source) * counts_.size() + block.destination];
}

std::int64_t BlockContents::size_of(const OwnMessage& message) const {
  std::int64_t size = 0;
  for_each_block(message, [&](Block block) { size += block_bytes(block); });
  return size;
}

at::Tensor BlockContents::to_send(int, const OwnMessage& message) {
  Piece whole;
  std::int64_t size = 0;
  bool together = true;
  for_each_block(message, [&](Block block) {
    const Piece& piece = held(block);
    TRIREME_CHECK(piece.store >= 0, "block ({}, {}) is not here", block.source, block.destination);
    if (piece.size == 0) return;
    size += piece.size;
    if (whole.size == 0)
      whole = piece;
    else if (piece.store == whole.store && piece.offset == whole.offset + whole.size)
      whole.size += piece.size;
    else
      together = false;
  });
  if (size == 0) return part_of(stores_[result_store], 0, 0);
  if (together) return part_of(stores_[static_cast<std::size_t>(whole.store)], whole.offset, whole.size);
  at::Tensor out = buffers_.take(size, result_.device());
  std::int64_t offset = 0;
  for_each_block(message, [&](Block block) {
    const Piece& piece = held(block);
    copy_bytes(out, offset, stores_[static_cast<std::size_t>(piece.store)], piece.offset, piece.size);
    offset += piece.size;
  });
  return out;
}

at::Tensor BlockContents::to_receive(int, const OwnMessage& message) {
  // Straight into the result where the message lies there as it comes.
  std::int64_t begin = -1, end = -1;
  bool in_order = true;
  for_each_block(message, [&](Block block) {
    if (!in_order) return;
    in_order = block.destination == me_;
    if (!in_order) return;
    const std::int64_t at = result_offset_[static_cast<std::size_t>(block.source)];
    in_order = begin < 0 || at == end;
    if (begin < 0) begin = at;
    end = at + block_bytes(block);
  });
  if (in_order && begin >= 0) return part_of(stores_[result_store], begin, end - begin);
  return buffers_.take(size_of(message), result_.device());
}

void BlockContents::received(int, const OwnMessage& message, const at::Tensor& bytes) {
  std::int64_t offset = 0;
  int store = result_store;
  if (bytes.numel() > 0 && bytes.storage().is_alias_of(result_.storage())) {
    offset = bytes.storage_offset() - stores_[result_store].storage_offset();
  } else {
    store = static_cast<int>(stores_.size());
    stores_.push_back(bytes);
  }
  for_each_block(message, [&](Block block) {
    const std::int64_t size = block_bytes(block);
    held(block) = {store, offset, size};
    offset += size;
  });
}

at::Tensor BlockContents::result(const std::string& pattern) {
  for (int s = 0; s < counts_.size(); ++s) {
    const Piece& piece = held({s, me_});
    TRIREME_CHECK(piece.store >= 0, "{}: block ({}, {}) did not arrive", pattern, s, me_);
    if (piece.store != result_store)
      copy_bytes(stores_[result_store], result_offset_[static_cast<std::size_t>(s)],
                 stores_[static_cast<std::size_t>(piece.store)], piece.offset, piece.size);
  }
  return result_;
}

RecordContents::RecordContents(int members, int me, int width, std::vector<std::int64_t> own, at::Device device,
                               RowBuffers& buffers)
    : members_(members), width_(static_cast<std::size_t>(width)), device_(device), buffers_(buffers) {
  TRIREME_CHECK(own.size() == static_cast<std::size_t>(members) * width_);
  for (int d = 0; d < members; ++d) {
    const auto begin = own.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(d) * width_);
    records_[key({me, d})] = {begin, begin + width};
  }
}

std::span<const std::int64_t> RecordContents::at(Block block) const {
  const auto found = records_.find(key(block));
  TRIREME_CHECK(found != records_.end(), "block ({}, {}) did not pass here", block.source, block.destination);
  return found->second;
}

BlockCounts RecordContents::counts() const {
  BlockCounts out(members_);
  for (const auto& [key, record] : records_)
    out.set({static_cast<int>(key / members_), static_cast<int>(key % members_)}, record.front());
  return out;
}

at::Tensor RecordContents::to_send(int, const OwnMessage& message) {
  std::vector<std::int64_t> numbers;
  for_each_block(message, [&](Block block) {
    const auto record = at(block);
    numbers.insert(numbers.end(), record.begin(), record.end());
  });
  const auto size = static_cast<std::int64_t>(numbers.size() * sizeof(std::int64_t));
  at::Tensor bytes = buffers_.take(size, device_);
  bytes.copy_(at::from_blob(numbers.data(), {size}, at::kByte));
  return bytes;
}

at::Tensor RecordContents::to_receive(int, const OwnMessage& message) {
  std::size_t blocks = 0;
  for (const plan::Parcel& parcel : message.parcels) blocks += static_cast<std::size_t>(parcel.num_blocks());
  return buffers_.take(static_cast<std::int64_t>(blocks * width_ * sizeof(std::int64_t)), device_);
}

void RecordContents::received(int, const OwnMessage& message, const at::Tensor& bytes) {
  const at::Tensor here = bytes.cpu();
  const std::uint8_t* data = here.const_data_ptr<std::uint8_t>();
  for_each_block(message, [&](Block block) {
    std::vector<std::int64_t>& record = records_[key(block)];
    record.resize(width_);
    std::memcpy(record.data(), data, width_ * sizeof(std::int64_t));
    data += width_ * sizeof(std::int64_t);
  });
}

}  // namespace trireme::comm
