#include "parallel/expert_exchange.h"

#include <numeric>

#include <ATen/ATen.h>

#include "base/errors.h"
#include "comm/pattern_messages.h"
#include "comm/with_peer.h"

namespace trireme::parallel {

struct ExpertExchange::Trip {
  std::optional<comm::BlockCounts> counts;  // of rows that move as they are
  std::optional<comm::TokenRoute> route;    // of tokens
  std::shared_ptr<const nn::Routing> routing;
  at::Tensor first_T;  // the permuted row of each token's first slot
};

ExpertExchange::ExpertExchange(comm::Group& group, const plan::Pattern& pattern, int num_experts, int top_k)
    : group_(group), pattern_(pattern.name), num_experts_(num_experts), top_k_(top_k) {
  TRIREME_CHECK(num_experts_ % group_.size() == 0 && top_k_ > 0);
  if (plan::needs_tokens(pattern))
    tokens_.emplace(group, pattern, num_experts);
  else
    rows_.emplace(group, pattern);
}

ExpertExchange::TripPointer ExpertExchange::begin(const nn::Boundary& in, nn::Boundary& out,
                                                  const std::string& operation, comm::PhaseLog* log) {
  TRIREME_CHECK(in.routing != nullptr, "{} without a routing", operation);
  const std::size_t members = group_.size(), local = num_experts_ / members;
  const std::vector<std::int64_t>& own_E = in.routing->counts_E;
  TRIREME_CHECK(own_E.size() == members * local, "{}: {} counts for {} experts", operation, own_E.size(), num_experts_);
  if (tokens_) return begin_tokens(in, out, operation, log);
  const auto start = comm::PhaseLog::Clock::now();
  comm::with_peer([&] {
    out.received_counts_PE =
        comm::exchange_counts(group_, own_E, comm::in_phase(operation + " counts", pattern_, "counts"));
  });
  if (log != nullptr) {
    log->part = "counts";
    log->add("direct", start, comm::PhaseLog::Clock::now());
    log->part = "block counts";
  }
  const auto by_member = [&](const std::vector<std::int64_t>& counts_PE) {
    std::vector<std::int64_t> out(members);
    for (std::size_t p = 0; p < members; ++p)
      out[p] = std::accumulate(counts_PE.begin() + p * local, counts_PE.begin() + (p + 1) * local, std::int64_t{0});
    return out;
  };
  auto trip = std::make_shared<Trip>();
  const auto sent_P = by_member(own_E);
  // A direct pattern needs only what this member sends and receives, which is known now; others need more.
  trip->counts = rows_->needs_own_counts_only()
                     ? comm::BlockCounts::own(group_.rank(), sent_P, by_member(out.received_counts_PE))
                     : rows_->exchange_counts(sent_P, operation + " block counts", log);
  return trip;
}

ExpertExchange::TripPointer ExpertExchange::begin_tokens(const nn::Boundary& in, nn::Boundary& out,
                                                         const std::string& operation, comm::PhaseLog* log) {
  const nn::Routing& routing = *in.routing;
  const std::int64_t rows = in.rows_RD.size(0);
  TRIREME_CHECK(routing.inverse_R.defined() && routing.inverse_R.size(0) == rows && rows % top_k_ == 0,
                "{}: {} rows of tokens with {} slots", operation, rows, top_k_);
  const at::Tensor slots_TK = routing.inverse_R.view({-1, top_k_});
  const at::Tensor counts = at::tensor(at::ArrayRef<std::int64_t>(routing.counts_E), at::kLong);
  const at::Tensor expert_R = at::repeat_interleave(at::arange(num_experts_, at::kLong), counts);
  auto trip = std::make_shared<Trip>();
  trip->routing = in.routing;
  trip->first_T = slots_TK.select(1, 0).contiguous();
  trip->route = tokens_->route(expert_R.index_select(0, routing.inverse_R.cpu()).view({-1, top_k_}), operation, log);
  out.received_counts_PE = trip->route->counts_PE;
  return trip;
}

void ExpertExchange::move_rows(const Trip& trip, bool to_experts, bool scores, const nn::Boundary& in,
                               nn::Boundary& out, const std::string& operation, comm::PhaseLog* log) {
  const auto move = [&](const at::Tensor& rows, const std::string& what) {
    return to_experts ? rows_->dispatch(rows.contiguous(), *trip.counts, what, log)
                      : rows_->combine(rows.contiguous(), *trip.counts, what, log);
  };
  if (log != nullptr) log->part = "rows";
  out.rows_RD = move(in.rows_RD, operation);
  if (log != nullptr) log->part = "scores";
  if (scores) out.scores_R = move(in.scores_R, operation + " scores");
}

void ExpertExchange::move_tokens(const Trip& trip, bool to_experts, bool scores, const nn::Boundary& in,
                                 nn::Boundary& out, const std::string& operation, comm::PhaseLog* log) {
  const comm::TokenRoute& route = *trip.route;
  if (log != nullptr) log->part = "rows";
  if (to_experts) {
    out.rows_RD = tokens_->dispatch(route, in.rows_RD.index_select(0, trip.first_T), operation, log);
    if (log != nullptr) log->part = "scores";
    if (scores)
      out.scores_R = tokens_->dispatch_slots(
          route, in.scores_R.index_select(0, trip.routing->inverse_R).view({-1, top_k_}), operation + " scores", log);
    return;
  }
  const at::Tensor sums_TD = tokens_->combine(route, in.rows_RD.contiguous(), operation, log);
  out.rows_RD = at::zeros({sums_TD.size(0) * top_k_, sums_TD.size(1)}, sums_TD.options());
  out.rows_RD.index_copy_(0, trip.first_T, sums_TD);
  if (log != nullptr) log->part = "scores";
  if (scores)
    out.scores_R = tokens_->combine_slots(route, in.scores_R.contiguous(), operation + " scores", log)
                       .view(-1)
                       .index_select(0, trip.routing->order_R);
}

ExpertExchange::TripPointer ExpertExchange::trip_of(const plan::Action& action) const {
  const std::lock_guard lock(mutex_);
  const auto at = trips_.find({action.mb, action.layer});
  TRIREME_CHECK(at != trips_.end(), "{} before its dispatch", plan::describe(action));
  return at->second;
}

nn::Boundary ExpertExchange::run(const plan::Action& action, const nn::Boundary& in, bool keep, comm::PhaseLog* log) {
  const std::string operation = plan::describe(action);
  const bool dispatch = action.segment == model::Segment::dispatch;
  const bool forward = action.pass == plan::Pass::forward;
  nn::Boundary out = in;
  const TripPointer trip = dispatch && forward ? begin(in, out, operation, log) : trip_of(action);
  if (tokens_)
    move_tokens(*trip, dispatch == forward, dispatch, in, out, operation, log);
  else
    move_rows(*trip, dispatch == forward, dispatch, in, out, operation, log);
  const bool last_use = keep ? dispatch && !forward : !dispatch;
  const std::lock_guard lock(mutex_);
  if (last_use)
    trips_.erase({action.mb, action.layer});
  else
    trips_.insert_or_assign({action.mb, action.layer}, trip);
  return out;
}

int ExpertExchange::num_remembered() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(trips_.size());
}

}  // namespace trireme::parallel
