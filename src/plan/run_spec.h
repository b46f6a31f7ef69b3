// A run as a value: everything that RUN.toml says. Torch-free, so that `trireme plan` reads the file that
// `trireme train` runs.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/config_table.h"
#include "base/dtype.h"
#include "model/model_spec.h"
#include "plan/layout_spec.h"
#include "plan/mesh.h"
#include "plan/published_spec.h"

namespace trireme::plan {

struct BatchSpec {
  std::int64_t sequence_length = 256;
  std::int64_t micro_batch = 1;          // sequences
  std::int64_t global_batch = 8;         // sequences a step, over all data ranks and micro-batches
  bool operator==(const BatchSpec&) const = default;
  // Micro-batches of one data rank a step.
  std::int64_t num_micro_batches(int dp) const { return global_batch / (micro_batch * dp); }
};

struct OptimizerSpec {
  double learning_rate = 3e-4;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
  double gradient_clip = 1.0;            // global norm; 0: off
  bool operator==(const OptimizerSpec&) const = default;
};

struct LearningRateSpec {
  std::string kind = "cosine";           // cosine | wsd | constant
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 0;          // wsd: length of the last, decaying part (linear to min_ratio)
  double min_ratio = 0.1;                // of learning_rate, at the end
  bool operator==(const LearningRateSpec&) const = default;
};

struct TrainSpec {
  std::int64_t steps = 100;
  std::uint64_t seed = 1;
  OptimizerSpec optimizer;
  LearningRateSpec schedule;
  std::int64_t eval_every = 0;           // steps; 0: only at the end
  std::int64_t eval_sequences = 0;       // 0: no evaluation
  std::int64_t log_every = 1;
  bool operator==(const TrainSpec&) const = default;
};

struct DataSpec {
  std::string train;                     // prefix of .bin/.idx, or "random" (uniform tokens, for benchmarks)
  std::string valid;
  bool reset_at_documents = true;        // attention and positions stop at document boundaries
  bool operator==(const DataSpec&) const = default;
};

struct CheckpointSpec {
  std::int64_t every = 0;                // steps; 0: only at the end and when stopped
  int keep = 2;
  bool at_end = true;
  std::string initial;                   // folder of weights to start from (a Trireme checkpoint or a HF folder)
  bool operator==(const CheckpointSpec&) const = default;
};

struct DeviceSpec {
  std::string device = "cpu";            // cpu | cuda
  DType dtype = DType::float32;          // parameters and compute
  DType reduce_dtype = DType::float32;   // gradients in messages
  int threads = 0;                       // of a rank; 0: cores / ranks on the host, at least 1
  bool operator==(const DeviceSpec&) const = default;
};

struct RunSpec {
  std::string file;                      // where it was read, for errors
  std::string name = "run";
  std::filesystem::path folder;          // of the run's output
  std::filesystem::path platform;        // platform file from `trireme probe`; empty: the built-in guess, said so
  double timeout_s = 60;                 // of communication and of heartbeats
  model::ModelSpec model;
  LayoutSpec layout;
  BatchSpec batch;
  TrainSpec train;
  DataSpec data;
  CheckpointSpec checkpoint;
  DeviceSpec device;
  std::optional<PublishedSpec> published;  // with it the file is of a run that is planned, not trained
  bool operator==(const RunSpec&) const = default;
};

// Reads and checks RUN.toml with overrides ("train.steps=8"). Paths in it are relative to the file's folder.
// ConfigError for anything wrong that can be seen without knowing the number of ranks.
RunSpec load_run(const std::filesystem::path& path, const std::vector<std::string>& overrides = {});
RunSpec parse_run(const std::string& text, const std::string& file_name, const std::vector<std::string>& overrides = {});
std::string to_toml(const RunSpec& run);

// The mesh for this many ranks: dp follows where it is 0. ConfigError naming layout.pp / dp / ep / batch.global_batch
// where they don't fit the ranks, the model's layers and experts, or the batch, where the runtime can't run the layout
// (plan/runnable.h), or where there would be more ranks or layer passes (micro-batches x layers) than a plan has.
inline constexpr int most_ranks = 16'384;
inline constexpr std::int64_t most_layer_passes = 1 << 18;
Mesh resolve_mesh(const RunSpec& run, int num_ranks);

}  // namespace trireme::plan
