#include "parallel/tensor_runner.h"

#include <cmath>

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include "base/errors.h"
#include "parallel/stream.h"
#include "plan/exchange_pattern.h"

namespace trireme::parallel {
namespace {

using model::Segment;
using plan::ActionKind;
using plan::BufferKind;

// The segments of a layer after this one, in order.
std::vector<Segment> later_segments(const model::ModelSpec& spec, Segment segment, int layer) {
  if (layer < 0) return {};
  std::vector<Segment> all = model::computing_segments(spec, layer);
  all.erase(all.begin(), std::find(all.begin(), all.end(), segment) + 1);
  return all;
}

}  // namespace

TensorRunner::TensorRunner(StageContext context, nn::Model& model, GradientBuckets* buckets, StepHooks hooks)
    : context_(context),
      model_(model),
      buckets_(buckets),
      hooks_(std::move(hooks)),
      buffers_(context_.stage()),
      phases_(context_.stage()),
      totals_(context_) {
  TRIREME_CHECK(static_cast<bool>(hooks_.batch), "a runner needs batches");
  const plan::Mesh& mesh = context_.plan.mesh;
  if (mesh.ep > 1 && context_.run.model.num_moe_layers() > 0)
    exchange_.emplace(context_.communicator.group(Axis::ep),
                      plan::exchange_pattern(context_.plan, context_.rank), context_.run.model.moe.num_experts,
                      context_.run.model.moe.router.top_k);
}

void TensorRunner::begin_step() {
  totals_.begin();
  expert_rows_.clear();
  phases_.begin_step();
}

void TensorRunner::end_step(StepResult& result) {
  for (const int buffer : buffers_.alive())
    TRIREME_CHECK(false, "{} is alive at the end of the step", describe(context_.stage().buffers[buffer]));
  TRIREME_CHECK(!exchange_ || exchange_->num_remembered() == 0, "a dispatch was not undone in this step");
  result.expert_rows = expert_rows_;
  phases_.add_to(result.timeline);
  result.sums = totals_.sums();
  result.gradient_norm = std::sqrt(result.sums.squared_norm);
}

void TensorRunner::run(const plan::Action& action) {
  const c10::NoGradGuard no_grad;
  const std::string operation = plan::describe(action);
  switch (action.kind) {
    case ActionKind::load_batch:
      load_batch(action);
      break;
    case ActionKind::count_tokens:
      totals_.count_tokens(context_.group_of(action), operation);
      break;
    case ActionKind::forward:
      forward(action);
      break;
    case ActionKind::backward:
      backward(action);
      break;
    case ActionKind::all_to_all:
      all_to_all(action);
      break;
    case ActionKind::send:
      send(action);
      break;
    case ActionKind::receive:
      receive(action);
      break;
    case ActionKind::reduce:
      buckets_->reduce(action.bucket, context_.group_of(action), operation);
      break;
    case ActionKind::reduce_embedding:
      buckets_->reduce_embedding(context_.group_of(action), operation);
      break;
    case ActionKind::gradient_norm:
      totals_.add_norm(hooks_.owned_sum_of_squares ? hooks_.owned_sum_of_squares() : 0.0,
                       hooks_.stop_flag ? hooks_.stop_flag() : 0.0);
      break;
    case ActionKind::reduce_metrics:
      // A forward-only plan has no norm to compute, but may be asked to stop as well.
      if (buckets_ == nullptr) totals_.add_norm(0.0, hooks_.stop_flag ? hooks_.stop_flag() : 0.0);
      totals_.reduce_metrics(context_.group_of(action), operation);
      break;
    case ActionKind::reduce_counts:
      totals_.reduce_counts(context_.group_of(action), operation);
      break;
    case ActionKind::optimizer:
      finish(action);
      break;
    case ActionKind::input_gradient:
      input_gradient(action);
      break;
    case ActionKind::weight_gradient:
      weight_gradient(action);
      break;
    case ActionKind::pair:
    case ActionKind::gather:
    case ActionKind::swap_out:
    case ActionKind::swap_in:
      TRIREME_CHECK(false, "{}: only plans of segments are executed", operation);
  }
  buffers_.free(action.frees);
}

nn::Boundary TensorRunner::read(const plan::Action& action, BufferKind kind) const {
  nn::Boundary value = buffers_.boundary(action, kind);
  if (!context_.device.is_cpu()) {
    const Stream stream = Stream::current(context_.device);
    for (const nn::Field f : nn::tensor_fields) stream.keep_alive(nn::field(value, f));
  }
  return value;
}

void TensorRunner::write(const plan::Action& action, BufferKind kind, nn::Boundary value) {
  if (const int buffer = buffers_.allocated_by(action, kind, /*to_shared=*/true); buffer >= 0) {
    const nn::Field f = kind == BufferKind::boundary ? nn::Field::normed : nn::Field::shared;
    nn::Boundary to_shared;
    nn::field(to_shared, f) = std::exchange(nn::field(value, f), at::Tensor());
    buffers_.put(buffer, std::move(to_shared));
  }
  if (const int buffer = buffers_.allocated_by(action, kind); buffer >= 0) buffers_.put(buffer, std::move(value));
}

void TensorRunner::drop_dead_fields(nn::Boundary& out, Segment segment, int layer) const {
  const auto later = later_segments(model_.spec(), segment, layer);
  for (const nn::Field f : nn::tensor_fields) {
    bool alive = f == nn::Field::x;  // the residual stream reaches the next layer
    for (const Segment s : later) {
      const auto fields = nn::fields_read(model_.spec(), s, layer);
      alive = alive || std::find(fields.begin(), fields.end(), f) != fields.end();
    }
    if (!alive) nn::field(out, f) = at::Tensor();
  }
  if (later.empty()) {
    out.routing.reset();
    out.received_counts_PE.clear();
  }
}

void TensorRunner::load_batch(const plan::Action& action) {
  if (action.mb == 0 && buckets_ != nullptr) buckets_->zero();  // here, where the step's clock and its plan see it
  nn::Batch batch = hooks_.batch(action.mb);
  const plan::BatchSpec& spec = context_.run.batch;
  TRIREME_CHECK(batch.tokens_BS.dim() == 2 && batch.tokens_BS.size(0) == spec.micro_batch &&
                    batch.tokens_BS.size(1) == spec.sequence_length,
                "micro-batch {} has {} tokens", action.mb, batch.tokens_BS.numel());
  totals_.add_batch(batch);
  buffers_.put(buffers_.allocated_by(action, BufferKind::batch), std::move(batch));
}

void TensorRunner::forward(const plan::Action& action) {
  const nn::Batch batch = buffers_.batch(buffers_.read_by(action, BufferKind::batch));
  nn::Boundary in = read(action, BufferKind::boundary);
  if (action.segment == Segment::experts) {
    expert_rows_.resize(context_.stage().actions.size());
    expert_rows_[action.id] = static_cast<double>(in.rows_RD.size(0));
  }
  const int saved = buffers_.allocated_by(action, BufferKind::saved);
  nn::Boundary out;
  if (saved >= 0) {
    const double seed = action.segment == Segment::head ? totals_.head_seed() : 0.0;
    nn::Model::Forward forward = model_.forward_saving(action.segment, action.layer, in, batch, seed);
    out = std::move(forward.out);
    buffers_.put(saved, std::move(forward.saved));
  } else {
    out = model_.forward(action.segment, action.layer, in, batch);
  }
  totals_.add_outputs(action.segment, action.layer, out);
  if (buffers_.allocated_by(action, BufferKind::boundary) >= 0) {
    nn::Boundary result = std::move(out);
    result.loss = result.aux_loss = result.z_loss = at::Tensor();
    if (action.segment == Segment::attention && result.routing && !exchange_)
      result.received_counts_PE = result.routing->counts_E;
    drop_dead_fields(result, action.segment, action.layer);
    write(action, BufferKind::boundary, std::move(result));
  }
}

void TensorRunner::backward(const plan::Action& action) {
  nn::Saved saved = buffers_.take_saved(buffers_.read_by(action, BufferKind::saved));
  write(action, BufferKind::gradient,
        model_.backward(std::move(saved), read(action, BufferKind::gradient), totals_.loss_seeds()));
}

void TensorRunner::input_gradient(const plan::Action& action) {
  nn::Saved saved = buffers_.take_saved(buffers_.read_by(action, BufferKind::saved));
  nn::Model::InputGradient result =
      model_.backward_input(std::move(saved), read(action, BufferKind::gradient), totals_.loss_seeds());
  write(action, BufferKind::gradient, std::move(result.gradient));
  const int work = buffers_.allocated_by(action, BufferKind::weight_work);
  TRIREME_CHECK(work >= 0 || result.work.empty(), "{} leaves work that the plan has no buffer for",
                plan::describe(action));
  if (work >= 0) buffers_.put(work, std::move(result.work));
}

void TensorRunner::weight_gradient(const plan::Action& action) {
  // The plan may have such an action for a segment without weights, too, with nothing to read.
  const int work = buffers_.read_by(action, BufferKind::weight_work);
  if (work >= 0) model_.backward_weight(buffers_.take_weight_work(work));
}

void TensorRunner::all_to_all(const plan::Action& action) {
  TRIREME_CHECK(exchange_.has_value(), "an all-to-all where no experts are spread");
  const BufferKind kind = action.pass == plan::Pass::forward ? BufferKind::boundary : BufferKind::gradient;
  const auto begin = comm::PhaseLog::Clock::now();
  comm::PhaseLog log;
  nn::Boundary out = exchange_->run(action, read(action, kind), /*keep=*/buckets_ != nullptr, &log);
  phases_.set(action, begin, std::move(log));
  buffers_.put(buffers_.allocated_by(action, kind), std::move(out));
}

void TensorRunner::send(const plan::Action& action) {
  const BufferKind kind = action.pass == plan::Pass::forward ? BufferKind::boundary : BufferKind::gradient;
  const nn::Boundary boundary = read(action, kind);
  TRIREME_CHECK(boundary.x_TD.defined(), "{} has nothing to send", plan::describe(action));
  comm::send(context_.group_of(action), boundary.x_TD.contiguous(), context_.peer_of(action), /*tag=*/0,
             plan::describe(action));
}

void TensorRunner::receive(const plan::Action& action) {
  const BufferKind kind = action.pass == plan::Pass::forward ? BufferKind::boundary : BufferKind::gradient;
  nn::Boundary boundary;
  boundary.x_TD = at::empty({context_.tokens(), model_.spec().hidden},
                            at::TensorOptions().dtype(model_.options().dtype).device(context_.device));
#ifdef TRIREME_POISON
  boundary.x_TD.fill_(std::nan(""));
#endif
  comm::receive(context_.group_of(action), boundary.x_TD, context_.peer_of(action), /*tag=*/0, plan::describe(action));
  buffers_.put(buffers_.allocated_by(action, kind), std::move(boundary));
}

void TensorRunner::finish(const plan::Action& action) {
  const StepSums& sums = totals_.sums();
  const double norm = std::sqrt(sums.squared_norm);
  if (hooks_.accepts_update && !hooks_.accepts_update(sums, norm)) return;
  totals_.update_selection_bias(model_);
  if (hooks_.optimizer) hooks_.optimizer(sums, norm);
}

}  // namespace trireme::parallel
