// The unit of execution and of pricing: a transformer layer is cut where its communication is.
//   MoE layer:   attention -> dispatch -> shared -> experts -> combine   (`shared` where the model has a shared expert)
//   dense layer: attention -> mlp
//   ends:        embed, head
#pragma once
#include <vector>

#include "base/json.h"

namespace trireme::model {

struct ModelSpec;

enum class Segment {
  none,
  embed,      // token embedding
  attention,  // norm, attention, residual, norm; in an MoE layer also router and permutation
  dispatch,   // all-to-all of rows and scores to the experts' hosts (communication only)
  shared,     // shared expert on the rank's own tokens: needs no message, so it computes while dispatch's is on its way
  experts,    // routed experts on the rows received
  combine,    // all-to-all of the results back (communication), then unpermutation, shared expert's output, residual
  mlp,        // dense feed-forward and residual
  head,       // final norm, projection and loss (chunked), on the last stage
};

TRIREME_JSON(Segment)

const char* name_of(Segment segment);

// The segments of a layer that compute, in forward order: all but `dispatch`.
std::vector<Segment> computing_segments(const ModelSpec& spec, int layer);

}  // namespace trireme::model
