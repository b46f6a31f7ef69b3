#include "nn/extend.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

namespace trireme::nn {

using model::Segment;

at::Tensor last_rows(const NewTokens& tokens, const at::Tensor& x_TD) {
  std::vector<std::int64_t> rows;
  std::int64_t end = 0;
  for (const NewTokens::Run& run : tokens.runs) rows.push_back((end += run.count) - 1);
  return x_TD.index_select(0, at::tensor(rows, at::kLong).to(x_TD.device()));
}

at::Tensor next_logits(Model& model, const NewTokens& tokens, KeyValueCache& cache) {
  at::NoGradGuard no_grad;
  const model::ModelSpec& spec = model.spec();
  Boundary b = model.extend(Segment::embed, -1, {}, tokens, cache);
  for (int layer = 0; layer < spec.num_layers; ++layer)
    for (const Segment segment : model::computing_segments(spec, layer)) {
      if (segment == Segment::experts) b.received_counts_PE = b.routing->counts_E;
      b = model.extend(segment, layer, b, tokens, cache);
    }
  advance(cache, tokens);
  return model.project(last_rows(tokens, b.x_TD));
}

}  // namespace trireme::nn
