// A rehearsal: the plan's actions with the real executor and real messages of the planned sizes, but compute replaced
// by waiting for its priced time. Separates an error of scheduling or of messages from an error of compute prices.
#pragma once
#include <memory>
#include <optional>

#include "parallel/exchange_phases.h"
#include "parallel/expert_exchange.h"
#include "parallel/segment_runner.h"
#include "parallel/stage_context.h"

namespace trireme::parallel {

class EmulatedRunner : public SegmentRunner {
 public:
  // costs is aligned with the stage's plan: an action of the compute lane waits for its action_s (seconds). Routed rows
  // are spread evenly over the experts.
  EmulatedRunner(StageContext context, plan::StageCosts costs);

  void begin_step() override { phases_.begin_step(); }
  void run(const plan::Action& action) override;
  void end_step(StepResult& result) override { phases_.add_to(result.timeline); }

 private:
  void all_to_all(const plan::Action& action);
  void all_reduce(const plan::Action& action, std::int64_t elements, at::ScalarType dtype);
  at::Tensor boundary_message() const;

  StageContext context_;
  plan::StageCosts costs_;
  at::ScalarType dtype_;
  ExchangePhases phases_;
  std::shared_ptr<const nn::Routing> routing_;
  std::int64_t num_rows_ = 0, num_received_ = 0;
  std::optional<ExpertExchange> exchange_;
};

}  // namespace trireme::parallel
