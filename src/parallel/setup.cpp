#include "parallel/setup.h"

#include "base/errors.h"

namespace trireme::parallel {

nn::Hosted hosted_by(const plan::RunSpec& run, const plan::Plan& plan, int rank) {
  const plan::Mesh& mesh = plan.mesh;
  const auto& chunks = plan.stages.at(mesh.pp_index(rank)).chunks;
  TRIREME_CHECK(chunks.size() == 1, "a stage of {} chunks", chunks.size());
  nn::Hosted out{.layers = chunks[0]};
  const int local = run.model.moe.num_experts / mesh.ep;
  TRIREME_CHECK(local * mesh.ep == run.model.moe.num_experts, "ep {} does not divide {} experts", mesh.ep,
                run.model.moe.num_experts);
  for (int e = 0; e < local; ++e) out.experts.push_back(mesh.ep_index(rank) * local + e);
  return out;
}

std::unique_ptr<nn::Model> make_model(const plan::RunSpec& run, const plan::Plan& plan, int rank, int local_rank) {
  at::Device device(run.device.device);
  if (!device.is_cpu() && !device.has_index()) device.set_index(static_cast<c10::DeviceIndex>(local_rank));
  return std::make_unique<nn::Model>(run.model, hosted_by(run, plan, rank),
                                     nn::ModelOptions{.device = device, .dtype = to_scalar_type(run.device.dtype)});
}

std::unique_ptr<GradientBuckets> make_buckets(const plan::RunSpec& run, const plan::Plan& plan, int rank,
                                              nn::Model& model) {
  return std::make_unique<GradientBuckets>(model, plan.stages.at(plan.mesh.pp_index(rank)),
                                           to_scalar_type(run.device.reduce_dtype));
}

StageRuntime::StageRuntime(const plan::RunSpec& run, const plan::Plan& plan, comm::Communicator& communicator, int rank,
                           nn::Model& model, GradientBuckets* buckets, StepHooks hooks) {
  TRIREME_CHECK(plan.schedule.forward_only || buckets != nullptr, "training without gradient buckets");
  const StageContext context{run, plan, communicator, rank, model.options().device};
  runner_ =
      std::make_unique<TensorRunner>(context, model, plan.schedule.forward_only ? nullptr : buckets, std::move(hooks));
  make_executor(context);
}

StageRuntime::StageRuntime(const plan::RunSpec& run, const plan::Plan& plan, comm::Communicator& communicator, int rank,
                           EmulatedWork work) {
  const StageContext context{run, plan, communicator, rank, at::kCPU};
  runner_ = std::make_unique<EmulatedRunner>(context, std::move(work));
  make_executor(context);
}

void StageRuntime::make_executor(const StageContext& context) {
  TRIREME_CHECK(context.plan.grain == plan::Grain::segment, "a plan of chunks is priced and simulated, never executed");
  comm::Communicator& communicator = context.communicator;
  communicator.connect(plan::message_groups(context.plan));
  ExecutorOptions options{.rank = context.rank, .device = context.device};
  options.on_failure = [&communicator] { communicator.abort(); };
  options.group_name = [context](const plan::Action& action) { return context.group_of(action).describe(); };
  executor_ = std::make_unique<Executor>(context.stage(), *runner_, std::move(options));
}

}  // namespace trireme::parallel
