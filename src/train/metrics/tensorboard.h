// TensorBoard event files: TFRecord framing (length, masked crc of the length, data, masked crc of the data) around
// Event protocol buffers, of which only these fields are written:
//   Event   { 1: double wall_time  2: int64 step  3: string file_version  5: Summary summary  7: SessionLog session_log }
//   Summary { 1: repeated Value }   Value { 1: string tag  2: float simple_value }
//   SessionLog { 1: SessionStatus status }   START = 1
// These fields don't make a protobuf dependency worth it. Source: tensorflow/core/util/event.proto, summary.proto,
// lib/io/record_writer.cc.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/append_file.h"
#include "train/metrics/step_metrics.h"

namespace trireme::train {

struct Scalar {
  std::string tag;
  float value = 0;
};

struct ScalarEvent {
  double wall_time = 0;  // seconds since 1970
  std::int64_t step = 0;
  std::string file_version;  // "brain.Event:2" in the first record, else empty
  std::vector<Scalar> scalars;
  // A session starts here: whoever reads forgets what earlier files say of this step and of those behind it (tensorboard's
  // event_accumulator._CheckForRestartAndMaybePurge).
  bool session_start = false;
};

// A serialized Event, and that in its record frame.
std::string encode_event(const ScalarEvent& event);
std::string frame_record(const std::string& data);

// router_max_over_mean/layer_03 and so on.
std::vector<Scalar> scalars_of(const RouterLoad& load);

class TensorBoardWriter {
 public:
  // Makes `folder`/events.out.tfevents.<time>.<host>.<pid>, whose name comes behind those that are there: TensorBoard reads
  // them in that order. The file starts a session at `first_step`, so that what a crashed run has written of it and of
  // later steps does not show twice. ConfigError where it cannot.
  TensorBoardWriter(const std::filesystem::path& folder, std::int64_t first_step);

  // Every number of the step as train/<name> (eval/loss, eval/loss/<set>, eval/bigram_loss, data/tokens/<set>) and the load
  // of experts as router_<what>/layer_<number>, at the current time. RuntimeFailure on failure. A step that is not behind the
  // last one starts a session: the run went back.
  void write(const StepMetrics& metrics);
  void write(const ScalarEvent& event);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::unique_ptr<AppendFile> file_;
  std::int64_t last_step_ = -1;
};

}  // namespace trireme::train
