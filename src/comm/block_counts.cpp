#include "base/errors.h"
#include "comm/pattern_exchange.h"

namespace trireme::comm {

using plan::Block;

BlockCounts::BlockCounts(int size)
    : size_(size), rows_(static_cast<std::size_t>(size) * static_cast<std::size_t>(size), -1) {
  TRIREME_CHECK(size > 0);
}

BlockCounts BlockCounts::own(int member, std::span<const std::int64_t> send, std::span<const std::int64_t> receive) {
  TRIREME_CHECK(send.size() == receive.size() && member >= 0 && member < static_cast<int>(send.size()));
  BlockCounts counts(static_cast<int>(send.size()));
  for (int other = 0; other < counts.size(); ++other) {
    counts.set({member, other}, send[static_cast<std::size_t>(other)]);
    counts.set({other, member}, receive[static_cast<std::size_t>(other)]);
  }
  return counts;
}

std::size_t BlockCounts::index(Block block) const {
  TRIREME_CHECK(block.source >= 0 && block.source < size_ && block.destination >= 0 && block.destination < size_,
                "block ({}, {}) of {} members", block.source, block.destination, size_);
  return static_cast<std::size_t>(block.source) * static_cast<std::size_t>(size_) +
         static_cast<std::size_t>(block.destination);
}

std::int64_t BlockCounts::at(Block block) const {
  const std::int64_t rows = rows_[index(block)];
  TRIREME_CHECK(rows >= 0, "the rows of block ({}, {}) are not known here", block.source, block.destination);
  return rows;
}

void BlockCounts::set(Block block, std::int64_t rows) {
  TRIREME_CHECK(rows >= 0, "block ({}, {}) has {} rows", block.source, block.destination, rows);
  rows_[index(block)] = rows;
}

std::vector<std::int64_t> BlockCounts::sent_by(int member) const {
  std::vector<std::int64_t> rows;
  for (int d = 0; d < size_; ++d) rows.push_back(at({member, d}));
  return rows;
}

std::vector<std::int64_t> BlockCounts::received_by(int member) const {
  std::vector<std::int64_t> rows;
  for (int s = 0; s < size_; ++s) rows.push_back(at({s, member}));
  return rows;
}

BlockCounts transpose(const BlockCounts& counts) {
  BlockCounts turned(counts.size());
  for (int s = 0; s < counts.size(); ++s)
    for (int d = 0; d < counts.size(); ++d)
      if (counts.known({s, d})) turned.set({d, s}, counts.at({s, d}));
  return turned;
}

}  // namespace trireme::comm
