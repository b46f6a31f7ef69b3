// Messages of blocks: rows as they are, and their counts.
#pragma once
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/pattern_exchange.h"
#include "comm/pattern_messages.h"
#include "comm/row_buffer.h"

namespace trireme::comm {

// Rows of blocks. What is sent and lies together already is not copied, nor is what arrives in the order of the result.
class BlockContents final : public MessageContents {
 public:
  // rows: contiguous, by destination. counts: of all blocks that pass `me`. All are kept by reference until result().
  BlockContents(const at::Tensor& rows, const BlockCounts& counts, int me, RowBuffers& buffers);

  at::Tensor to_send(int phase, const OwnMessage& message) override;
  at::Tensor to_receive(int phase, const OwnMessage& message) override;
  void received(int phase, const OwnMessage& message, const at::Tensor& bytes) override;
  void keep(int, const plan::Parcel&) override {}
  // By source. A bug where a block did not arrive.
  at::Tensor result(const std::string& pattern);

 private:
  // Where a block lies. Looked up for every block of every message: no tensor, and no hashing for the member's own.
  struct Piece {
    int store = -1;  // of stores_; -1: not here
    std::int64_t offset = 0, size = 0;
  };
  std::int64_t size_of(const OwnMessage& message) const;
  Piece& held(plan::Block block);
  std::int64_t block_bytes(plan::Block block) const { return counts_.at(block) * row_bytes_; }

  const BlockCounts& counts_;
  int me_;
  RowBuffers& buffers_;
  std::int64_t row_bytes_;
  at::Tensor result_;
  std::vector<at::Tensor> stores_;           // bytes: the rows that came in, the result, then what was received
  std::vector<std::int64_t> result_offset_;  // by source, in bytes
  std::vector<Piece> from_me_, to_me_;       // by destination, by source
  std::unordered_map<std::int64_t, Piece> passing_;
};

// A record of numbers for every block that passes a member: its rows, say.
class RecordContents final : public MessageContents {
 public:
  // own: `width` numbers for each destination.
  RecordContents(int members, int me, int width, std::vector<std::int64_t> own, at::Device device, RowBuffers& buffers);

  at::Tensor to_send(int phase, const OwnMessage& message) override;
  at::Tensor to_receive(int phase, const OwnMessage& message) override;
  void received(int phase, const OwnMessage& message, const at::Tensor& bytes) override;
  void keep(int, const plan::Parcel&) override {}

  // Of a block that passed: a bug otherwise.
  std::span<const std::int64_t> at(plan::Block block) const;
  // The records' first numbers.
  BlockCounts counts() const;

 private:
  std::int64_t key(plan::Block block) const { return std::int64_t{block.source} * members_ + block.destination; }
  int members_;
  std::size_t width_;
  at::Device device_;
  RowBuffers& buffers_;
  std::unordered_map<std::int64_t, std::vector<std::int64_t>> records_;
};

}  // namespace trireme::comm
