// Executes a pattern that copies or sums tokens on the way (node deduplication, all-gather between nodes), or any
// other, for tokens with their experts. Legend: T tokens of this member, K slots of a token, D width, R rows that
// arrive for this member's experts (by source, then expert, then token), P members, E experts of one member.
#pragma once
#include <memory>

#include <ATen/core/Tensor.h>

#include "comm/group.h"
#include "comm/token_route.h"
#include "plan/all_to_all/pattern.h"

namespace trireme::comm {

class TokenExchange {
 public:
  // pattern: of the dispatch flow, without plan::problems.
  TokenExchange(Group& group, plan::Pattern pattern, int num_experts);
  ~TokenExchange();

  // All are collective, also for a member without tokens.
  TokenRoute route(const at::Tensor& experts_TK, const std::string& operation, PhaseLog* log = nullptr);
  // A row for each slot, copied from its token.
  at::Tensor dispatch(const TokenRoute& route, const at::Tensor& tokens_TD, const std::string& operation,
                      PhaseLog* log = nullptr);
  // Sums by token: wherever the pattern sums, first a member's own rows by expert, then in ascending order of the
  // members that rows and sums come from, in float32 where they are narrower. It is also the backward of dispatch, and
  // dispatch its.
  at::Tensor combine(const TokenRoute& route, const at::Tensor& rows_RD, const std::string& operation,
                     PhaseLog* log = nullptr);
  // A number a slot instead of a row a token: scores there, their gradients back (zero for slots that are for nobody).
  at::Tensor dispatch_slots(const TokenRoute& route, const at::Tensor& values_TK, const std::string& operation,
                            PhaseLog* log = nullptr);
  at::Tensor combine_slots(const TokenRoute& route, const at::Tensor& values_R, const std::string& operation,
                           PhaseLog* log = nullptr);

 private:
  Group& group_;
  plan::Pattern pattern_;
  OwnPart there_, back_;
  int experts_per_member_;
};

}  // namespace trireme::comm
