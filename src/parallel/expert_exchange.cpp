#include "parallel/expert_exchange.h"

#include <numeric>

#include "base/errors.h"

namespace trireme::parallel {

ExpertExchange::ExpertExchange(comm::Group& group, const plan::Pattern& pattern, int num_experts)
    : group_(group), exchange_(group, pattern), num_experts_(num_experts) {
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
  if (exchange_.needs_own_counts_only())
    return comm::BlockCounts::own(group_.rank(), sent_P, by_member(out.received_counts_PE));
  return exchange_.exchange_counts(sent_P, operation + " block counts");
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
  const auto move = [&](const at::Tensor& rows, const std::string& what) {
    return to_experts ? exchange_.dispatch(rows.contiguous(), counts, what)
                      : exchange_.combine(rows.contiguous(), counts, what);
  };
  out.rows_RD = move(in.rows_RD, operation);
  if (dispatch) out.scores_R = move(in.scores_R, operation + " scores");
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
