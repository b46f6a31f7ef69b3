#include "comm/pattern_exchange.h"

#include <ATen/ATen.h>

#include "base/errors.h"
#include "comm/block_contents.h"
#include "comm/pattern_messages.h"
#include "comm/with_peer.h"

namespace trireme::comm {

bool is_direct(const plan::Pattern& pattern) {
  if (pattern.phases.size() != 1 || pattern.phases.front().in_flight > 0) return false;
  for (const plan::Transfer& t : pattern.phases.front().transfers)
    if (t.parcels.size() != 1 || t.parcels.front() != plan::block(t.from, t.to)) return false;
  return true;
}

struct PatternExchange::State {
  Group& group;
  bool direct;
  OwnPart there, back;
  RowBuffers buffers;

  at::Tensor run(const OwnPart& part, const at::Tensor& rows, const BlockCounts& counts, const std::string& operation,
                 PhaseLog* log) {
    const int me = group.rank();
    // Bytes are moved here, and nothing else: torch need not look for gradients at each of many small views.
    const at::AutoDispatchBelowADInplaceOrView below;
    if (direct) {
      const auto begin = PhaseLog::Clock::now();
      at::Tensor result;
      with_peer([&] {
        result = all_to_all_rows(group, rows, counts.sent_by(me), counts.received_by(me),
                                 in_phase(operation, part.pattern, part.phases.front().name));
      });
      if (log != nullptr) log->add(part.phases.front().name, begin, PhaseLog::Clock::now());
      return result;
    }
    BlockContents contents(rows, counts, me, buffers);
    run_messages(group, part, contents, operation, log);
    at::Tensor result = contents.result(part.pattern);
    buffers.release_all();
    return result;
  }
};

PatternExchange::PatternExchange(Group& group, const plan::Pattern& pattern) {
  TRIREME_CHECK(!plan::needs_tokens(pattern), "{} copies or sums tokens", pattern.name);
  TRIREME_CHECK(pattern.size == group.size(), "{} of {} members on {}", pattern.name, pattern.size, group.describe());
  state_ = std::make_unique<State>(State{group,
                                         is_direct(pattern),
                                         own_part(pattern, group.rank()),
                                         own_part(plan::transpose(pattern), group.rank()),
                                         {}});
}

PatternExchange::~PatternExchange() = default;

bool PatternExchange::needs_own_counts_only() const {
  return state_->there.phases.size() <= 1;
}

BlockCounts PatternExchange::exchange_counts(std::span<const std::int64_t> send_counts, const std::string& operation,
                                             PhaseLog* log) {
  Group& group = state_->group;
  TRIREME_CHECK(send_counts.size() == static_cast<std::size_t>(group.size()));
  if (needs_own_counts_only())
    return BlockCounts::own(group.rank(), send_counts, comm::exchange_counts(group, send_counts, operation));
  RecordContents contents(group.size(), group.rank(), 1, {send_counts.begin(), send_counts.end()}, group.device,
                          state_->buffers);
  run_messages(group, state_->there, contents, operation, log);
  state_->buffers.release_all();
  return contents.counts();
}

at::Tensor PatternExchange::dispatch(const at::Tensor& rows, const BlockCounts& counts, const std::string& operation,
                                     PhaseLog* log) {
  return state_->run(state_->there, rows, counts, operation, log);
}

at::Tensor PatternExchange::combine(const at::Tensor& rows, const BlockCounts& counts, const std::string& operation,
                                    PhaseLog* log) {
  return state_->run(state_->back, rows, transpose(counts), operation, log);
}

BlockCounts exchange_block_counts(Group& group, const plan::Pattern& pattern, std::span<const std::int64_t> send_counts,
                                  const std::string& operation) {
  return PatternExchange(group, pattern).exchange_counts(send_counts, operation);
}

at::Tensor exchange_rows(Group& group, const plan::Pattern& pattern, const at::Tensor& rows, const BlockCounts& counts,
                         const std::string& operation) {
  return PatternExchange(group, pattern).dispatch(rows, counts, operation);
}

}  // namespace trireme::comm
