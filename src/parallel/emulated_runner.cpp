#include "parallel/emulated_runner.h"

#include <algorithm>

#include <ATen/Functions.h>

#include "base/errors.h"
#include "base/rng.h"
#include "parallel/emulated_routing.h"
#include "plan/exchange_pattern.h"

namespace trireme::parallel {

using plan::ActionKind;
using plan::Pass;

namespace {

// Rows spread as evenly as whole numbers allow.
std::vector<std::int64_t> even_rows(std::int64_t rows, std::int64_t num_experts) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(num_experts), rows / num_experts);
  for (std::int64_t e = 0; e < rows % num_experts; ++e) ++out[static_cast<std::size_t>(e)];
  return out;
}

}  // namespace

EmulatedRunner::EmulatedRunner(StageContext context, EmulatedWork work)
    : context_(context), work_(std::move(work)), dtype_(to_scalar_type(context.run.device.dtype)), phases_(context.stage()) {
  TRIREME_CHECK(work_.wait_s.size() == context_.stage().actions.size(), "{} waits for {} actions", work_.wait_s.size(),
                context_.stage().actions.size());
  const model::ModelSpec& model = context_.run.model;
  if (context_.plan.mesh.ep == 1 || model.num_moe_layers() == 0) return;
  const plan::Pattern pattern = plan::exchange_pattern(context_.plan, context_.rank);
  sends_tokens_ = plan::needs_tokens(pattern);
  exchange_.emplace(context_.communicator.group(Axis::ep), pattern, static_cast<int>(model.moe.num_experts),
                    static_cast<int>(model.moe.router.top_k));
  if (!work_.rows_E)
    work_.rows_E = [rows = context_.tokens() * model.moe.router.top_k, experts = model.moe.num_experts](int, int) {
      return even_rows(rows, experts);
    };
}

void EmulatedRunner::begin_step() {
  phases_.begin_step();
  expert_rows_.assign(exchange_ ? context_.stage().actions.size() : 0, 0);
}

void EmulatedRunner::end_step(StepResult& result) {
  phases_.add_to(result.timeline);
  result.expert_rows = expert_rows_;
  TRIREME_CHECK(!exchange_ || (exchange_->num_remembered() == 0 && routed_.empty()), "a dispatch was not undone in this step");
}

at::Tensor EmulatedRunner::zeros(at::IntArrayRef shape, at::ScalarType dtype) {
  const std::int64_t bytes = c10::multiply_integers(shape) * static_cast<std::int64_t>(c10::elementSize(dtype));
  at::Tensor source;
  {
    const std::lock_guard lock(mutex_);
    if (!source_.defined() || source_.numel() < bytes)
      source_ = at::zeros({bytes}, at::TensorOptions().dtype(at::kByte).device(context_.device));
    source = source_;
  }
  return source.narrow(0, 0, bytes).view(dtype).view(shape);
}

void EmulatedRunner::wait(const plan::Action& action) {
  const auto begin = TimedWait::Clock::now();
  // What the router decides is a part of the time of its segment.
  const bool routes = exchange_ && action.kind == ActionKind::forward && action.segment == model::Segment::attention &&
                      context_.run.model.is_moe(action.layer);
  if (routes) routed(action);
  if (exchange_ && action.kind == ActionKind::forward && action.segment == model::Segment::experts)
    expert_rows_[static_cast<std::size_t>(action.id)] = static_cast<double>(routed(action).received);
  waits_[static_cast<std::size_t>(action.lane)].wait(begin, work_.wait_s.at(static_cast<std::size_t>(action.id)));
}

void EmulatedRunner::run(const plan::Action& action) {
  const auto& model = context_.run.model;
  if (action.lane == plan::Lane::compute || action.lane == plan::Lane::copy || action.lane == plan::Lane::copy_in)
    return wait(action);
  switch (action.kind) {
    case ActionKind::all_to_all:
      all_to_all(action);
      break;
    case ActionKind::send:
      comm::send(context_.group_of(action), zeros({context_.tokens(), model.hidden}, dtype_), context_.peer_of(action), 0,
                 plan::describe(action));
      break;
    case ActionKind::receive: {
      // As a run's: a tensor of its own each time.
      at::Tensor message = at::empty({context_.tokens(), model.hidden},
                                     at::TensorOptions().dtype(dtype_).device(context_.device));
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
  const std::int64_t bytes = elements * static_cast<std::int64_t>(c10::elementSize(dtype));
  if (!sum_.defined() || sum_.numel() < bytes)
    sum_ = at::zeros({bytes}, at::TensorOptions().dtype(at::kByte).device(context_.device));
  at::Tensor message = sum_.narrow(0, 0, bytes).view(dtype);
  comm::all_reduce(context_.group_of(action), message, comm::ReduceOp::sum, plan::describe(action));
}

EmulatedRunner::Routed& EmulatedRunner::routed(const plan::Action& action) {
  const std::pair<int, int> key{action.mb, action.layer};
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = routed_.find(key); at != routed_.end()) return at->second;
  }
  std::vector<std::int64_t> rows_E = work_.rows_E(action.mb, action.layer);
  Routing routing = sends_tokens_
                        ? dealt_routing(rows_E, context_.tokens(),
                                        stream_key(static_cast<std::uint64_t>(action.layer) << 32 | static_cast<std::uint64_t>(action.mb), "rehearsal"))
                        : counted_routing(std::move(rows_E));
  const std::lock_guard lock(mutex_);
  return routed_.insert_or_assign(key, Routed{.routing = std::move(routing)}).first->second;
}

void EmulatedRunner::all_to_all(const plan::Action& action) {
  TRIREME_CHECK(exchange_.has_value(), "an all-to-all where no experts are spread");
  const bool dispatch = action.segment == model::Segment::dispatch, forward = action.pass == Pass::forward;
  Routed& of = routed(action);
  const std::int64_t rows = dispatch == forward ? context_.tokens() * context_.run.model.moe.router.top_k : of.received;
  nn::Boundary in;
  in.routing = of.routing;
  in.rows_RD = zeros({rows, context_.run.model.hidden}, dtype_);
  if (dispatch) in.scores_R = zeros({rows}, to_scalar_type(accumulate_dtype(context_.run.device.dtype)));
  const bool trains = !context_.plan.schedule.forward_only;
  const auto begin = comm::PhaseLog::Clock::now();
  comm::PhaseLog log;
  const nn::Boundary out = exchange_->run(action, in, /*keep=*/trains, &log);
  phases_.set(action, begin, std::move(log));
  if (dispatch && forward) of.received = out.rows_RD.size(0);
  if (trains ? dispatch && !forward : !dispatch) {
    const std::lock_guard lock(mutex_);
    routed_.erase({action.mb, action.layer});
  }
}

}  // namespace trireme::parallel
