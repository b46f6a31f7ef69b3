// Where tokens go under a pattern that copies or sums them: what one member learned of it by exchanging the tokens'
// experts. One route serves a micro-batch's dispatch, combine and their backward passes.
#pragma once
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/pattern_messages.h"

namespace trireme::comm {

// Tokens, or single rows of tokens, of one source that a member has. The rows of all its tables are numbered through,
// and so are their slots.
struct TokenTable {
  int source = 0;
  plan::Members destinations;  // for whom it holds them
  at::Tensor experts_NK;       // int64 on the CPU, by slot; K = 1 where a row is of one slot
  std::int64_t first_row = 0, first_slot = 0;
};

// Rows, and the slots that go with them: all of a token's, or one. int64 on the group's device.
struct Picks {
  at::Tensor rows, slots;
};
struct Stretch {
  std::int64_t first_row = 0, num_rows = 0, first_slot = 0, num_slots = 0;
};

struct TokenRoute {
  std::vector<TokenTable> tables;  // the first: the member's own tokens
  std::int64_t num_rows = 0, num_slots = 0;
  // By phase of the dispatch and by its message.
  std::vector<std::vector<Picks>> sent;
  std::vector<std::vector<Stretch>> received;
  Picks arrived;                        // for this member's experts, by source, then expert, then token; one slot each
  std::vector<std::int64_t> counts_PE;  // by source and local expert
  std::int64_t num_arrived = 0, num_tokens = 0, top_k = 0;
};

// Collective. experts_TK: int64, the expert of each slot of this member's tokens; member e / experts_per_member has
// expert e; -1: the slot is for nobody. Every member has the same K. `whole` is the pattern of which `part` is this
// member's part.
TokenRoute make_route(Group& group, const plan::Pattern& whole, const OwnPart& part, const at::Tensor& experts_TK,
                      int experts_per_member, const std::string& operation, PhaseLog* log = nullptr);

}  // namespace trireme::comm
