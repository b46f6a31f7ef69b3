// The unit of execution and of pricing: a transformer layer is cut where its communication is.
//   MoE layer:   attention -> dispatch -> experts -> combine
//   dense layer: attention -> mlp
//   ends:        embed, head
#pragma once
#include "base/json.h"

namespace trireme::model {

enum class Segment {
  none,
  embed,      // token embedding
  attention,  // norm, attention, residual, norm; in an MoE layer also router and permutation
  dispatch,   // all-to-all of rows and scores to the experts' hosts (communication only)
  experts,    // routed experts on the rows received, and the shared expert on the rank's own tokens
  combine,    // all-to-all of the results back (communication), then unpermutation, shared expert's output, residual
  mlp,        // dense feed-forward and residual
  head,       // final norm, projection and loss (chunked), on the last stage
};

TRIREME_JSON(Segment)

const char* name_of(Segment segment);

}  // namespace trireme::model
