#include "trireme/run_output.h"

#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/printable.h"
#include "report/pattern_choice.h"
#include "train/metrics/console_progress.h"
#include "train/metrics/metrics_log.h"
#include "train/metrics/tensorboard.h"
#include "trireme/standard_output.h"
#include "trireme/stop_signals.h"

namespace trireme::apps {

struct RunOutput::State {
  plan::RunSpec run;
  bool json = false;
  bool nobody_reads = false;  // standard output
  double predicted_peak_bytes = 0;
  train::ConsoleProgress console;
  std::int64_t behind = 0;  // the step that the run goes on from
  // Opened with the first step behind it.
  std::unique_ptr<train::MetricsLog> log;
  std::unique_ptr<train::TensorBoardWriter> tensorboard;

  State(const plan::RunSpec& r, bool j) : run(r), json(j), console(r.train.steps) {}
};

RunOutput::RunOutput(const plan::RunSpec& run, const plan::Plan& plan, const plan::Prediction& prediction, bool json)
    : state_(std::make_unique<State>(run, json)) {
  for (const plan::RankTimeline& rank : prediction.ranks)
    state_->predicted_peak_bytes = std::max(state_->predicted_peak_bytes, rank.peak_memory_bytes);
  message(fmt::format("{}: {} steps of {} sequences of {} tokens; predicted {:.3f} s a step on {}{}, run folder {}", printable(run.name),
                      run.train.steps, run.batch.global_batch, run.batch.sequence_length, prediction.step_s,
                      prediction.platform, prediction.platform_measured ? "" : " (a guess: run `trireme probe`)",
                      run.folder.string()));
  if (plan.mesh.ep > 1) message(fmt::format("all-to-all over ep {}: {}", plan.mesh.ep, report::pattern_text(plan, prediction)));
}
RunOutput::~RunOutput() = default;

void RunOutput::message(const std::string& text) {
  // A message that cannot be written is no reason to end.
  std::fputs((text + "\n").c_str(), stderr);
  std::fflush(stderr);
}

void RunOutput::goes_on_behind(std::int64_t step) {
  state_->behind = step;
  state_->log.reset();
  state_->tensorboard.reset();
}

void RunOutput::step(const train::StepMetrics& measured) {
  train::StepMetrics m = measured;
  m.predicted_peak_memory_bytes = state_->predicted_peak_bytes;
  if (!state_->log) state_->log = std::make_unique<train::MetricsLog>(state_->run.folder / "metrics.jsonl", state_->behind);
  if (!state_->tensorboard)
    state_->tensorboard = std::make_unique<train::TensorBoardWriter>(state_->run.folder / "tensorboard", state_->behind + 1);
  state_->log->write(m);
  state_->tensorboard->write(m);
  if (state_->nobody_reads) return;
  try {
    write_output((state_->json ? train::to_json(m).dump() : state_->console.line(m)) + "\n");
  } catch (const OutputError& error) {
    if (!error.reader_has_gone())
      throw RuntimeFailure({.rank = 0, .operation = "write standard output", .reason = error.code().message()});
    // As `head` ends once it has seen enough: what was trained is not lost for that.
    state_->nobody_reads = true;
    request_stop("nobody reads standard output any more");
  }
}

void RunOutput::end(const train::TrainOutcome& outcome) {
  if (outcome.eval_loss)
    message(fmt::format("validation loss of step {}: {:.4f}{}", outcome.eval_step, *outcome.eval_loss,
                        outcome.bigram_loss >= 0 ? fmt::format(", bigram model {:.4f}", outcome.bigram_loss) : ""));
  message(fmt::format("{} after step {}; `trireme report {}` compares prediction and measurement",
                      outcome.stopped_early ? "stopped, saved" : "done", outcome.last_step, state_->run.folder.string()));
}

}  // namespace trireme::apps
