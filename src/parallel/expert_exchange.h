// The communication of one MoE layer: rows and scores to the experts' hosts and results back, forward and backward. It
// remembers, from a micro-batch's dispatch to the last use, where its rows went.
// Patterns that copy or sum tokens see tokens, not rows: a token leaves once for all its slots, and what returns is one
// sum (of results that their hosts have weighted with the scores sent along; of gradients), which takes the place of
// the token's first slot while its others are zero. So `nn` sees rows whatever the pattern, and its sums over slots
// stay exact. Legend: P members of the ep group, n experts of one of them, E = P * n, T tokens of this rank, K slots of
// a token, R = T * K routed rows.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "comm/group.h"
#include "comm/pattern_exchange.h"
#include "comm/token_exchange.h"
#include "nn/boundary.h"
#include "plan/all_to_all/pattern.h"
#include "plan/pipeline/action.h"

namespace trireme::parallel {

class ExpertExchange {
 public:
  ExpertExchange(comm::Group& group, const plan::Pattern& pattern, int num_experts, int top_k);

  // Forward dispatch: rows_RD and scores_R become the received ones, received_counts_PE is set. Forward combine:
  // rows_RD (results) become those of this rank's tokens. Backward combine: rows_RD (gradients) go to the experts'
  // hosts. Backward dispatch: gradients of rows and scores return. Other fields pass through. `keep`: a backward will
  // follow. Patterns of tokens need the routing's order, and equal gradients for all of a token's slots.
  // `log`, which may be null, gets its phases.
  nn::Boundary run(const plan::Action& action, const nn::Boundary& in, bool keep, comm::PhaseLog* log = nullptr);

  int num_remembered() const;

 private:
  struct Trip;  // of a micro-batch through a layer
  using TripPointer = std::shared_ptr<const Trip>;

  TripPointer begin(const nn::Boundary& in, nn::Boundary& out, const std::string& operation, comm::PhaseLog* log);
  TripPointer begin_tokens(const nn::Boundary& in, nn::Boundary& out, const std::string& operation, comm::PhaseLog* log);
  TripPointer trip_of(const plan::Action& action) const;
  void move_rows(const Trip& trip, bool to_experts, bool scores, const nn::Boundary& in, nn::Boundary& out,
                 const std::string& operation, comm::PhaseLog* log);
  void move_tokens(const Trip& trip, bool to_experts, bool scores, const nn::Boundary& in, nn::Boundary& out,
                   const std::string& operation, comm::PhaseLog* log);

  comm::Group& group_;
  std::string pattern_;
  std::optional<comm::PatternExchange> rows_;  // one of the two
  std::optional<comm::TokenExchange> tokens_;
  int num_experts_, top_k_;
  mutable std::mutex mutex_;
  std::map<std::pair<int, int>, TripPointer> trips_;  // by micro-batch and layer
};

}  // namespace trireme::parallel
