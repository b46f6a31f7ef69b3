// Runs a plan's actions with tensors: segments of nn on the compute lane, messages on the others, buffers allocated and
// freed as the plan says.
#pragma once
#include <optional>

#include "nn/model.h"
#include "parallel/buffer_table.h"
#include "parallel/exchange_phases.h"
#include "parallel/expert_exchange.h"
#include "parallel/gradient_buckets.h"
#include "parallel/segment_runner.h"
#include "parallel/stage_context.h"
#include "parallel/step_totals.h"

namespace trireme::parallel {

class TensorRunner : public SegmentRunner {
 public:
  // buckets is null for a forward-only plan. All outlive the runner.
  TensorRunner(StageContext context, nn::Model& model, GradientBuckets* buckets, StepHooks hooks);

  void begin_step() override;
  void run(const plan::Action& action) override;
  void end_step(StepResult& result) override;

 private:
  void load_batch(const plan::Action& action);
  void forward(const plan::Action& action);
  void backward(const plan::Action& action);
  void input_gradient(const plan::Action& action);
  void weight_gradient(const plan::Action& action);
  void all_to_all(const plan::Action& action);
  void send(const plan::Action& action);
  void receive(const plan::Action& action);
  void finish(const plan::Action& action);  // optimizer

  nn::Boundary read(const plan::Action& action, plan::BufferKind kind) const;  // empty where the action reads none
  // Into the buffers of this kind that the action allocates, if any.
  void write(const plan::Action& action, plan::BufferKind kind, nn::Boundary value);
  // Drops from a segment's output what no later segment of the layer reads.
  void drop_dead_fields(nn::Boundary& out, model::Segment segment, int layer) const;

  StageContext context_;
  nn::Model& model_;
  GradientBuckets* buckets_;
  StepHooks hooks_;
  BufferTable buffers_;
  ExchangePhases phases_;
  StepTotals totals_;
  std::vector<double> expert_rows_;         // StepResult::expert_rows of this step
  std::optional<ExpertExchange> exchange_;  // where experts are spread
};

}  // namespace trireme::parallel
