// Where checkpoints lie and when one counts. A run's checkpoint folder holds
//
//   step-00000120/              complete: it has its name only once everything in it is on the disk
//     rank-00000.safetensors    what rank 0 owns, under global names; no file of a rank that owns nothing
//     model.toml                the architecture
//     state.json                step, seed, tokens seen, ...: what the trainer needs to go on
//     hf/                       what an export needs beside the weights: config.json, tokenizer (hf_companions.h)
//     index.json                tensor -> file, dtype, shape, checksum; checksums of the other files; written last
//   best.json                   which step has the lowest evaluation loss, where such a one is kept
//   .tmp-step-00000130/         being written, or left by a run that died: ignored
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trireme::train {

inline constexpr const char* index_file = "index.json";
inline constexpr const char* state_file = "state.json";
inline constexpr const char* model_file = "model.toml";
inline constexpr const char* best_file = "best.json";
inline constexpr const char* companion_folder = "hf";

std::string checkpoint_name(std::int64_t step);  // "step-00000120"
std::string rank_file(int rank);                 // "rank-00003.safetensors"
// The step that a folder's name tells; nothing for other names.
std::optional<std::int64_t> step_of_name(const std::string& folder_name);
std::filesystem::path unfinished_path(const std::filesystem::path& folder, std::int64_t step);

struct CheckpointInfo {
  std::int64_t step = 0;
  std::filesystem::path path;
  bool operator==(const CheckpointInfo&) const = default;
};

// Complete checkpoints, by ascending step; none where the folder does not exist.
std::vector<CheckpointInfo> list_checkpoints(const std::filesystem::path& folder);
std::optional<CheckpointInfo> latest_checkpoint(const std::filesystem::path& folder);
// Folders named as checkpoints of steps behind `step` that lack their index: nothing of ours leaves such.
std::vector<CheckpointInfo> damaged_checkpoints(const std::filesystem::path& folder, std::int64_t behind);

// Gives a finished folder its final name, in the place of a checkpoint that has it already (a run that went back and
// came here again), and waits until the name is on the disk.
void publish(const std::filesystem::path& unfinished, const std::filesystem::path& final_path);
// Removes unfinished folders.
void remove_unfinished(const std::filesystem::path& folder);

// The checkpoint with the lowest evaluation loss in its state, the earlier one of equals; nothing where none has any.
struct BestCheckpoint {
  CheckpointInfo info;
  double eval_loss = 0;
};
std::optional<BestCheckpoint> best_checkpoint(const std::filesystem::path& folder);
// The same, and best.json says so, or is gone where none has any.
std::optional<BestCheckpoint> name_best_checkpoint(const std::filesystem::path& folder);

struct KeepPolicy {
  int newest = 2;          // so many stay; 0: all
  std::int64_t every = 0;  // those of steps that are multiples of it stay; 0: none for this reason
  bool best = false;       // best_checkpoint stays, and best.json names it
};
// Removes what nothing keeps. `newest_written` stays whatever its step, and counts as the newest.
void prune_checkpoints(const std::filesystem::path& folder, const KeepPolicy& keep, std::int64_t newest_written);

}  // namespace trireme::train
