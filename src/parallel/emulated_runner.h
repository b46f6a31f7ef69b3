// A rehearsal: the plan's actions with the real executor and real messages of the planned sizes, but compute and host
// copies replaced by waiting. Separates an error of scheduling or of messages from an error of compute prices. It holds no
// weights and no data; what it sends is zeros, out of one buffer that all its messages share.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "parallel/exchange_phases.h"
#include "parallel/expert_exchange.h"
#include "parallel/segment_runner.h"
#include "parallel/stage_context.h"
#include "parallel/timed_wait.h"

namespace trireme::parallel {

// What a rank is to do beside its messages.
struct EmulatedWork {
  std::vector<double> wait_s;  // aligned with the stage's actions: of those on the compute and copy lanes
  // Rows that this rank sends to each expert in a micro-batch and layer: tokens x top-k in all, none above the tokens. The
  // same on all ranks of an expert group. Empty: as even as can be.
  std::function<std::vector<std::int64_t>(int mb, int layer)> rows_E;
};

class EmulatedRunner : public SegmentRunner {
 public:
  EmulatedRunner(StageContext context, EmulatedWork work);

  void begin_step() override;
  void run(const plan::Action& action) override;
  void end_step(StepResult& result) override;

 private:
  using Routing = std::shared_ptr<const nn::Routing>;
  struct Routed {  // a micro-batch in a layer, from its routing to its last message
    Routing routing;
    std::int64_t received = 0;  // rows that the dispatch has brought to this rank
  };

  void wait(const plan::Action& action);
  void all_to_all(const plan::Action& action);
  void all_reduce(const plan::Action& action, std::int64_t elements, at::ScalarType dtype);
  Routed& routed(const plan::Action& action);  // of its micro-batch and layer; makes it where it is not there
  // Zeros that are only read.
  at::Tensor zeros(at::IntArrayRef shape, at::ScalarType dtype);

  StageContext context_;
  EmulatedWork work_;
  at::ScalarType dtype_;
  ExchangePhases phases_;
  std::array<TimedWait, plan::num_lanes> waits_;
  std::optional<ExpertExchange> exchange_;
  bool sends_tokens_ = false;
  std::vector<double> expert_rows_;                // StepResult::expert_rows of this step
  std::mutex mutex_;                               // of what follows
  std::map<std::pair<int, int>, Routed> routed_;   // by micro-batch and layer; elements stay where they are
  at::Tensor source_;                              // bytes of every message sent
  at::Tensor sum_;                                 // of every reduction, on the lane of reductions alone
};

}  // namespace trireme::parallel
