// What rank 0 shows of a run: the console or `--json`, and in the run's folder metrics.jsonl and TensorBoard events.
#pragma once
#include <memory>
#include <string>

#include "plan/run_files.h"
#include "plan/run_spec.h"
#include "train/trainer.h"

namespace trireme::apps {

class RunOutput {
 public:
  RunOutput(const plan::RunSpec& run, const plan::Plan& plan, const plan::Prediction& prediction, bool json);
  ~RunOutput();

  void message(const std::string& text);
  // What files of the run say of later steps is taken back with the next one that is told of: those steps are taken again.
  void goes_on_behind(std::int64_t step);
  void step(const train::StepMetrics& metrics);
  void end(const train::TrainOutcome& outcome);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::apps
