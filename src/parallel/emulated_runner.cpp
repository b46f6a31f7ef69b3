#include "parallel/emulated_runner.h"

#include <algorithm>
#include <thread>

#include <ATen/Functions.h>

#include "base/errors.h"
#include "base/rng.h"
#include "nn/router.h"
#include "plan/exchange_pattern.h"

namespace trireme::parallel {

using plan::ActionKind;
using plan::Pass;

namespace {

// Permutations of the experts end to end, cut into tokens: every expert has equally many rows (the first ones one more
// where they don't come out even), and a token's are spread as a router's would be, which decides what is saved where
// tokens travel once to a node.
std::shared_ptr<const nn::Routing> even_routing(std::int64_t tokens, std::int64_t top_k, std::int64_t num_experts) {
  at::Tensor experts_R = at::empty({tokens * top_k}, at::kLong);
  for (std::int64_t begin = 0; begin < tokens * top_k; begin += num_experts) {
    const std::int64_t n = std::min(num_experts, tokens * top_k - begin);
    random_permutation(stream_key(static_cast<std::uint64_t>(begin), "rehearsal"),
                       {experts_R.mutable_data_ptr<std::int64_t>() + begin, static_cast<std::size_t>(n)});
  }
  return nn::make_routing(experts_R.view({tokens, top_k}), num_experts);
}

}  // namespace

EmulatedRunner::EmulatedRunner(StageContext context, plan::StageCosts costs)
    : context_(context), costs_(std::move(costs)), dtype_(to_scalar_type(context.run.device.dtype)), phases_(context.stage()) {
  TRIREME_CHECK(costs_.action_s.size() == context_.stage().actions.size(), "{} prices for {} actions",
                costs_.action_s.size(), context_.stage().actions.size());
  const model::ModelSpec& model = context_.run.model;
  const plan::Mesh& mesh = context_.plan.mesh;
  if (mesh.ep == 1 || model.num_moe_layers() == 0) return;
  const std::int64_t num_experts = model.moe.num_experts, local = num_experts / mesh.ep;
  const std::int64_t top_k = model.moe.router.top_k;
  num_rows_ = context_.tokens() * top_k;
  routing_ = even_routing(num_rows_ / top_k, top_k, num_experts);
  for (std::int64_t e = 0; e < local; ++e)
    num_received_ += mesh.ep * routing_->counts_E[static_cast<std::size_t>(mesh.ep_index(context_.rank) * local + e)];
  exchange_.emplace(context_.communicator.group(Axis::ep), plan::exchange_pattern(context_.plan, context_.rank),
                    static_cast<int>(num_experts), static_cast<int>(top_k));
}

at::Tensor EmulatedRunner::boundary_message() const {
  return at::zeros({context_.tokens(), context_.run.model.hidden},
                   at::TensorOptions().dtype(dtype_).device(context_.device));
}

void EmulatedRunner::run(const plan::Action& action) {
  if (action.lane == plan::Lane::compute) {
    std::this_thread::sleep_for(std::chrono::duration<double>(costs_.action_s.at(action.id)));
    return;
  }
  const auto& model = context_.run.model;
  switch (action.kind) {
    case ActionKind::all_to_all:
      all_to_all(action);
      break;
    case ActionKind::send:
      comm::send(context_.group_of(action), boundary_message(), context_.peer_of(action), 0, plan::describe(action));
      break;
    case ActionKind::receive: {
      at::Tensor message = boundary_message();
      comm::receive(context_.group_of(action), message, context_.peer_of(action), 0, plan::describe(action));
      break;
    }
    case ActionKind::reduce:
      all_reduce(action, static_cast<std::int64_t>(context_.stage().buckets.at(action.bucket).elements),
                 to_scalar_type(context_.run.device.reduce_dtype));
      break;
    case ActionKind::reduce_embedding:
      all_reduce(action, model.vocab_size * model.hidden, to_scalar_type(context_.run.device.reduce_dtype));
      break;
    case ActionKind::count_tokens:
      all_reduce(action, 2, at::kDouble);
      break;
    case ActionKind::reduce_metrics:
      all_reduce(action, 7 + model.num_moe_layers(), at::kDouble);
      break;
    case ActionKind::reduce_counts: {
      std::int64_t layers = 0;
      for (const plan::Chunk& chunk : context_.stage().chunks)
        for (int layer = chunk.first_layer; layer < chunk.first_layer + chunk.num_layers; ++layer)
          layers += model.is_moe(layer) ? 1 : 0;
      all_reduce(action, layers * model.moe.num_experts, at::kDouble);
      break;
    }
    default:
      TRIREME_CHECK(false, "{} on lane {}", plan::describe(action), plan::name_of(action.lane));
  }
}

void EmulatedRunner::all_reduce(const plan::Action& action, std::int64_t elements, at::ScalarType dtype) {
  at::Tensor message = at::zeros({elements}, at::TensorOptions().dtype(dtype).device(context_.device));
  comm::all_reduce(context_.group_of(action), message, comm::ReduceOp::sum, plan::describe(action));
}

void EmulatedRunner::all_to_all(const plan::Action& action) {
  TRIREME_CHECK(exchange_.has_value(), "an all-to-all where no experts are spread");
  const bool to_experts = (action.segment == model::Segment::dispatch) == (action.pass == Pass::forward);
  const std::int64_t rows = to_experts ? num_rows_ : num_received_;
  const auto options = at::TensorOptions().dtype(dtype_).device(context_.device);
  nn::Boundary in;
  in.routing = routing_;
  in.rows_RD = at::zeros({rows, context_.run.model.hidden}, options);
  if (action.segment == model::Segment::dispatch)
    in.scores_R = at::zeros({rows}, options.dtype(to_scalar_type(accumulate_dtype(context_.run.device.dtype))));
  const auto begin = comm::PhaseLog::Clock::now();
  comm::PhaseLog log;
  exchange_->run(action, in, /*keep=*/!context_.plan.schedule.forward_only, &log);
  phases_.set(action, begin, std::move(log));
}

}  // namespace trireme::parallel
