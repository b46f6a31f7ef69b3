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
  bool decay_norms_and_biases = false;   // weight decay of parameters that are no matrices
  bool operator==(const OptimizerSpec&) const = default;
};

struct LearningRateSpec {
  std::string kind = "cosine";           // cosine | linear | wsd | constant
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 0;          // wsd: length of the last, decaying part (linear to min_ratio)
  double min_ratio = 0.1;                // of learning_rate, at the end
  bool operator==(const LearningRateSpec&) const = default;
};

// A loss far above the running median of the last steps.
struct LossSpikeSpec {
  std::string action = "stop";           // off | stop | skip (the update) | rewind (to the last checkpoint, past the batches)
  double factor = 3;                     // of the median
  std::int64_t window = 50;              // steps that the median is taken over
  std::int64_t max_rewinds = 3;          // of a run; then it stops
  bool operator==(const LossSpikeSpec&) const = default;
};

inline constexpr std::int64_t all_sequences = INT64_MAX;

struct TrainSpec {
  std::int64_t steps = 100;
  std::uint64_t seed = 1;
  OptimizerSpec optimizer;
  LearningRateSpec schedule;
  std::int64_t eval_every = 0;           // steps; 0: only at the end
  std::int64_t eval_sequences = 0;       // of each evaluation set; 0: no evaluation; all_sequences ("all"): all it has
  std::int64_t log_every = 1;
  std::int64_t max_skipped_updates = 10; // in a row, for gradients that are not finite; then the run stops
  LossSpikeSpec loss_spike;
  std::int64_t expert_collapse_steps = 100;  // one expert with all rows for so many steps is warned of; 0: never
  std::vector<std::string> freeze;       // patterns of names whose parameters stay as they are
  bool operator==(const TrainSpec&) const = default;
};

// One data set, alone or in a blend.
struct DataSet {
  std::string prefix;                    // of .bin/.idx, or "random" (uniform tokens, for benchmarks)
  double weight = 1;                     // share of the blend's sequences, on any scale
  std::string name;                      // in metrics; empty: the prefix's file name
  bool operator==(const DataSet&) const = default;
};

std::string name_of(const DataSet& set);

struct DataSpec {
  std::vector<DataSet> train, valid;     // a string in the file is one set
  bool reset_at_documents = true;        // attention and positions stop at document boundaries
  bool operator==(const DataSpec&) const = default;
};

struct CheckpointSpec {
  std::int64_t every = 0;                // steps; 0: only at the end and when stopped
  int keep = 2;                          // newest ones; 0: all
  std::int64_t keep_every = 0;           // those of steps that are multiples stay; 0: none for this reason
  bool keep_best = false;                // the one with the lowest evaluation loss stays
  std::vector<std::string> allow_changes;  // seed | data: what a resumed run may have otherwise than before
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
  std::filesystem::path model_origin;    // file or folder that model.file named; empty: the model's keys stand in the file
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
// `planned`: only to be planned, which allows every schedule.
enum class MeshUse { executed, planned };
Mesh resolve_mesh(const RunSpec& run, int num_ranks, MeshUse use = MeshUse::executed);

}  // namespace trireme::plan
