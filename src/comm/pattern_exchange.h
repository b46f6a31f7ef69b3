// Executes an all-to-all pattern (plan/all_to_all/pattern.h) that moves rows as they are, for rows of any trailing
// shape. A member's rows go in by destination (block (me, 0), (me, 1), ...) and come out by source (block (0, me), (1,
// me), ...), whatever way the pattern sends them. The backward pass is the same on transpose(pattern) and
// transpose(counts): rows that came out of the forward pass go in as they lie. A transfer inside a member moves no
// data. Patterns that copy or sum tokens: token_exchange.h.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/group.h"
#include "comm/phase_log.h"
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

// One phase in which every block goes straight to its destination, all at once: the backend's own all-to-all does it.
bool is_direct(const plan::Pattern& pattern);

// A pattern on a group, for many exchanges: it keeps what is this member's part, and buffers. One exchange at a time.
// The pattern must have no plan::problems and the group's size. It moves rows both ways, so give it the dispatch flow.
class PatternExchange {
 public:
  PatternExchange(Group& group, const plan::Pattern& pattern);
  ~PatternExchange();

  // Collective. From what this member has for each other one to all the counts that it needs to execute the pattern:
  // its own row and column for a direct pattern (one exchange of counts); else those of all blocks that pass it, which
  // travel by the pattern itself.
  BlockCounts exchange_counts(std::span<const std::int64_t> send_counts, const std::string& operation,
                              PhaseLog* log = nullptr);

  // Whether that is its own row and column: no block passes another member.
  bool needs_own_counts_only() const;

  // Collective, also on members that have nothing to move.
  at::Tensor dispatch(const at::Tensor& rows, const BlockCounts& counts, const std::string& operation,
                      PhaseLog* log = nullptr);
  // The way back by the transpose: rows by source in, by destination out. `counts` as in dispatch.
  at::Tensor combine(const at::Tensor& rows, const BlockCounts& counts, const std::string& operation,
                     PhaseLog* log = nullptr);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// One exchange on its own, of a pattern of either flow.
BlockCounts exchange_block_counts(Group& group, const plan::Pattern& pattern, std::span<const std::int64_t> send_counts,
                                  const std::string& operation);
at::Tensor exchange_rows(Group& group, const plan::Pattern& pattern, const at::Tensor& rows, const BlockCounts& counts,
                         const std::string& operation);

}  // namespace trireme::comm
