// The communication of one MoE layer: rows and scores to the experts' hosts and results back, forward and backward. It
// remembers, from a micro-batch's dispatch to the last use, how many rows went where.
// Legend: P members of the ep group, n experts of one of them, E = P * n, R routed rows of this rank's tokens.
#pragma once
#include <map>
#include <mutex>
#include <vector>

#include "comm/group.h"
#include "comm/pattern_exchange.h"
#include "nn/boundary.h"
#include "plan/all_to_all/pattern.h"
#include "plan/pipeline/action.h"

namespace trireme::parallel {

class ExpertExchange {
 public:
  ExpertExchange(comm::Group& group, const plan::Pattern& pattern, int num_experts);

  // Forward dispatch: rows_RD and scores_R become the received ones, received_counts_PE is set. Forward combine:
  // rows_RD (results) become those of this rank's tokens. Backward combine: rows_RD (gradients) go to the experts'
  // hosts. Backward dispatch: gradients of rows and scores return. Other fields pass through. `keep`: a backward will
  // follow.
  nn::Boundary run(const plan::Action& action, const nn::Boundary& in, bool keep);

  int num_remembered() const;
  void clear();

 private:
  // Exchanges the counts of experts; sets the received ones, and gives those of members that the pattern needs.
  comm::BlockCounts exchange_counts(nn::Boundary& out, const std::string& operation);
  comm::BlockCounts counts_of(const plan::Action& action) const;

  comm::Group& group_;
  comm::PatternExchange exchange_;
  int num_experts_;
  mutable std::mutex mutex_;
  std::map<std::pair<int, int>, comm::BlockCounts> counts_;  // by micro-batch and layer
};

}  // namespace trireme::parallel
