// Executes an all-to-all pattern (plan/all_to_all/pattern.h) on a group, phase by phase, for rows of any trailing
// shape. A member's rows go in by destination (block (me, 0), (me, 1), ...) and come out by source (block (0, me), (1,
// me), ...), whatever way the pattern sends them. The backward pass is the same on transpose(pattern) and
// transpose(counts): rows that came out of the forward pass go in as they lie. Source of the phases' semantics:
// plan/all_to_all/pattern.h. A transfer inside a member moves no data.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/group.h"
#include "plan/all_to_all/pattern.h"

namespace trireme::comm {

// Rows of block (s, d), known or not. A member of a flat pattern knows its own row and column only.
class BlockCounts {
 public:
  explicit BlockCounts(int size);
  // A member's own row (for each destination) and column (from each source).
  static BlockCounts own(int member, std::span<const std::int64_t> send, std::span<const std::int64_t> receive);

  int size() const { return size_; }
  bool known(plan::Block block) const { return rows_[index(block)] >= 0; }
  std::int64_t at(plan::Block block) const;  // a bug where it is not known
  void set(plan::Block block, std::int64_t rows);
  std::vector<std::int64_t> sent_by(int member) const;      // its row: all must be known
  std::vector<std::int64_t> received_by(int member) const;  // its column
  bool operator==(const BlockCounts&) const = default;

 private:
  std::size_t index(plan::Block block) const;
  int size_;
  std::vector<std::int64_t> rows_;  // -1: not known
};

BlockCounts transpose(const BlockCounts& counts);

// Collective. From what this member has for each other one to all the counts that it needs to execute the pattern: its
// own row and column for a direct pattern (one exchange of counts), all of them otherwise (one all-gather).
BlockCounts exchange_block_counts(Group& group, const plan::Pattern& pattern, std::span<const std::int64_t> send_counts,
                                  const std::string& operation);

// Collective: one all-to-all a phase, also on members that have nothing to move in it. The pattern must have no
// plan::problems and the group's size.
at::Tensor exchange_rows(Group& group, const plan::Pattern& pattern, const at::Tensor& rows, const BlockCounts& counts,
                         const std::string& operation);

// One phase in which every block goes straight to its destination: executed without packing.
bool is_direct(const plan::Pattern& pattern);

}  // namespace trireme::comm
