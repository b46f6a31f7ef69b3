#include "parallel/expert_exchange.h"

#include <numeric>

#include "base/errors.h"

namespace trireme::parallel {

ExpertExchange::ExpertExchange(comm::Group& group, plan::Pattern pattern, int num_experts)
    : group_(group),
      to_experts_(std::move(pattern)),
      to_tokens_(plan::transpose(to_experts_)),
      num_experts_(num_experts) {
  TRIREME_CHECK(num_experts_ % group_.size() == 0);
}

comm::BlockCounts ExpertExchange::exchange_counts(nn::Boundary& out, const std::string& operation) {
  TRIREME_CHECK(out.routing != nullptr, "{} without a routing", operation);
  const std::size_t members = group_.size(), local = num_experts_ / members;
  const std::vector<std::int64_t>& own_E = out.routing->counts_E;
  TRIREME_CHECK(own_E.size() == members * local, "{}: {} counts for {} experts", operation, own_E.size(), num_experts_);
  out.received_counts_PE = comm::exchange_counts(group_, own_E, operation + " counts");
  const auto by_member = [&](const std::vector<std::int64_t>& counts_PE) {
    std::vector<std::int64_t> out(members);
    for (std::size_t p = 0; p < members; ++p)
      out[p] = std::accumulate(counts_PE.begin() + p * local, counts_PE.begin() + (p + 1) * local, std::int64_t{0});
    return out;
  };
  const auto sent_P = by_member(own_E);
  // A direct pattern needs only what this member sends and receives, which is known now; others need more.
  if (comm::is_direct(to_experts_))
    return comm::BlockCounts::own(group_.rank(), sent_P, by_member(out.received_counts_PE));
  return comm::exchange_block_counts(group_, to_experts_, sent_P, operation + " block counts");
}

comm::BlockCounts ExpertExchange::counts_of(const plan::Action& action) const {
  const std::lock_guard lock(mutex_);
  const auto at = counts_.find({action.mb, action.layer});
  TRIREME_CHECK(at != counts_.end(), "{} before its dispatch", plan::describe(action));
  return at->second;
}

nn::Boundary ExpertExchange::run(const plan::Action& action, const nn::Boundary& in, bool keep) {
  const std::string operation = plan::describe(action);
  const bool dispatch = action.segment == model::Segment::dispatch;
  const bool forward = action.pass == plan::Pass::forward;
  const std::pair<int, int> key{action.mb, action.layer};
  nn::Boundary out = in;
  const comm::BlockCounts counts = dispatch && forward ? exchange_counts(out, operation) : counts_of(action);
  const bool to_experts = dispatch == forward;
  const comm::BlockCounts directed = to_experts ? counts : comm::transpose(counts);
  const plan::Pattern& pattern = to_experts ? to_experts_ : to_tokens_;
  out.rows_RD = comm::exchange_rows(group_, pattern, in.rows_RD.contiguous(), directed, operation);
  if (dispatch)
    out.scores_R = comm::exchange_rows(group_, pattern, in.scores_R.contiguous(), directed, operation + " scores");
  const bool last_use = keep ? dispatch && !forward : !dispatch;
  const std::lock_guard lock(mutex_);
  if (last_use)
    counts_.erase(key);
  else
    counts_.insert_or_assign(key, counts);
  return out;
}

int ExpertExchange::num_remembered() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(counts_.size());
}

void ExpertExchange::clear() {
  const std::lock_guard lock(mutex_);
  counts_.clear();
}

}  // namespace trireme::parallel
