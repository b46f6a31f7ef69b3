#include "trireme/run_output.h"
#include <cstdio>
#include <fstream>
#include <fmt/format.h>
namespace trireme::apps {
struct RunOutput::State { bool json; std::ofstream jsonl; };
RunOutput::RunOutput(const plan::RunSpec& run, const plan::Prediction&, bool json) : state_(new State{json, std::ofstream(run.folder / "metrics.jsonl", std::ios::app)}) {}
RunOutput::~RunOutput() = default;
void RunOutput::message(const std::string& text) { fmt::print(stderr, "{}\n", text); }
void RunOutput::step(const train::StepMetrics& m) {
  const std::string line = nlohmann::json(m).dump();
  state_->jsonl << line << std::endl;
  fmt::print("{}\n", line);
  std::fflush(stdout);
}
void RunOutput::end(const train::TrainOutcome&) {}
}
