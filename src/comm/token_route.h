// Where tokens go under a pattern that copies or sums them: what one member learned of it by exchanging the tokens'
// experts. One route serves a micro-batch's dispatch, combine and their backward passes.
#pragma once
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/pattern_messages.h"

namespace trireme::comm {

// Tokens, or single rows of tokens, of one source that a member has.
struct TokenTable {
  int source = 0;
  plan::Members destinations;  // for whom it holds them
  at::Tensor experts_NK;       // int64 on the CPU, by slot; K = 1 where a row is of one slot
};

// A selection from a table.
struct Picks {
  int table = 0;
  at::Tensor rows;   // int64 on the group's device
  at::Tensor slots;  // rows * K + slot: where single slots are taken; undefined where whole tokens are
};

struct TokenRoute {
  std::vector<TokenTable> tables;  // the first: the member's own tokens
  // By phase of the dispatch and by its message: what is taken for each source in it, or the tables that it brings.
  std::vector<std::vector<std::vector<Picks>>> sent;
  std::vector<std::vector<std::vector<int>>> received;
  // What this member's experts get, and where the rows lie: by source, then expert, then token.
  std::vector<Picks> arrived;
  std::vector<at::Tensor> positions;  // int64, of each of `arrived`
  std::int64_t num_arrived = 0;
  std::vector<std::int64_t> counts_PE;  // by source and local expert
  std::int64_t num_tokens = 0, top_k = 0;
};

// Collective. experts_TK: int64, the expert of each slot of this member's tokens; member e / experts_per_member has
// expert e; -1: the slot is for nobody. Every member has the same K. `whole` is the pattern of which `part` is this
// member's part.
TokenRoute make_route(Group& group, const plan::Pattern& whole, const OwnPart& part, const at::Tensor& experts_TK,
                      int experts_per_member, const std::string& operation);

}  // namespace trireme::comm
