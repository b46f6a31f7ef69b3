#include "comm/pattern_exchange.h"

#include <map>

#include <ATen/ATen.h>

#include "base/errors.h"

namespace trireme::comm {
namespace {

using plan::Block;

// The blocks that a phase moves between this member and each other one, in the order of the message.
struct Messages {
  std::vector<std::vector<Block>> to, from;  // by member; a member's own entry stays empty
};

void append(const plan::Transfer& transfer, std::vector<Block>& to) {
  for (const plan::Parcel& parcel : transfer.parcels)
    for (int s = 0; s < parcel.sources.count; ++s)
      for (int d = 0; d < parcel.destinations.count; ++d) to.push_back({parcel.sources[s], parcel.destinations[d]});
}

Messages messages_of(const plan::Phase& phase, int size, int me) {
  Messages m{.to = std::vector<std::vector<Block>>(static_cast<std::size_t>(size)),
             .from = std::vector<std::vector<Block>>(static_cast<std::size_t>(size))};
  for (const plan::Transfer& transfer : phase.transfers) {
    if (transfer.from == transfer.to) continue;
    if (transfer.from == me) append(transfer, m.to[static_cast<std::size_t>(transfer.to)]);
    if (transfer.to == me) append(transfer, m.from[static_cast<std::size_t>(transfer.from)]);
  }
  return m;
}

std::vector<std::int64_t> rows_of(const std::vector<std::vector<Block>>& messages, const BlockCounts& counts) {
  std::vector<std::int64_t> rows;
  for (const auto& blocks : messages) {
    std::int64_t sum = 0;
    for (const Block& block : blocks) sum += counts.at(block);
    rows.push_back(sum);
  }
  return rows;
}

}  // namespace

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

bool is_direct(const plan::Pattern& pattern) {
  if (pattern.phases.size() != 1) return false;
  for (const plan::Transfer& transfer : pattern.phases.front().transfers)
    if (transfer.parcels.size() != 1 || transfer.parcels.front() != plan::block(transfer.from, transfer.to))
      return false;
  return true;
}

BlockCounts exchange_block_counts(Group& group, const plan::Pattern& pattern, std::span<const std::int64_t> send_counts,
                                  const std::string& operation) {
  const int size = group.size();
  TRIREME_CHECK(pattern.size == size && send_counts.size() == static_cast<std::size_t>(size));
  if (is_direct(pattern))
    return BlockCounts::own(group.rank(), send_counts, exchange_counts(group, send_counts, operation));
  const auto mine =
      at::from_blob(const_cast<std::int64_t*>(send_counts.data()), {size}, at::kLong).clone().to(group.device);
  BlockCounts counts(size);
  const auto all = all_gather(group, mine, operation);
  for (int s = 0; s < size; ++s) {
    const at::Tensor row = all[static_cast<std::size_t>(s)].cpu();
    for (int d = 0; d < size; ++d) counts.set({s, d}, row.const_data_ptr<std::int64_t>()[d]);
  }
  return counts;
}

at::Tensor exchange_rows(Group& group, const plan::Pattern& pattern, const at::Tensor& rows, const BlockCounts& counts,
                         const std::string& operation) {
  const int me = group.rank(), size = group.size();
  TRIREME_CHECK(!plan::needs_tokens(pattern), "{} copies or sums tokens", pattern.name);
  TRIREME_CHECK(pattern.size == size && counts.size() == size, "{} of {} members on {}", pattern.name, pattern.size,
                group.describe());
  if (is_direct(pattern)) return all_to_all_rows(group, rows, counts.sent_by(me), counts.received_by(me), operation);

  std::map<Block, at::Tensor> held;  // views of what came in or was received
  std::int64_t offset = 0;
  for (int d = 0; d < size; ++d) {
    const Block block{me, d};
    held[block] = rows.narrow(0, offset, counts.at(block));
    offset += counts.at(block);
  }
  TRIREME_CHECK(offset == rows.size(0), "{} rows but counts for {}", rows.size(0), offset);

  const at::Tensor no_rows = rows.narrow(0, 0, 0);
  for (const plan::Phase& phase : pattern.phases) {
    const Messages messages = messages_of(phase, size, me);
    std::vector<at::Tensor> parts{no_rows};  // at::cat needs one
    for (const auto& blocks : messages.to) {
      for (const Block& block : blocks) {
        const auto found = held.find(block);
        TRIREME_CHECK(found != held.end(), "{}, phase {}: member {} does not hold block ({}, {})", pattern.name,
                      phase.name, me, block.source, block.destination);
        parts.push_back(found->second);
        held.erase(found);
      }
    }
    const at::Tensor received =
        all_to_all_rows(group, at::cat(parts), rows_of(messages.to, counts), rows_of(messages.from, counts),
                        fmt::format("{}, phase {}", operation, phase.name));
    offset = 0;
    for (const auto& blocks : messages.from) {
      for (const Block& block : blocks) {
        held[block] = received.narrow(0, offset, counts.at(block));
        offset += counts.at(block);
      }
    }
  }

  std::vector<at::Tensor> result{no_rows};
  for (int s = 0; s < size; ++s) {
    const auto found = held.find({s, me});
    TRIREME_CHECK(found != held.end(), "{}: block ({}, {}) did not arrive", pattern.name, s, me);
    result.push_back(found->second);
  }
  return at::cat(result);
}

}  // namespace trireme::comm
