// Where checkpoints lie and when one counts. A run's checkpoint folder holds
//
//   step-00000120/              complete: it has its name only once everything in it is on the disk
//     rank-00000.safetensors    what rank 0 owns, under global names; no file of a rank that owns nothing
//     model.toml                the architecture
//     state.json                step, seed, tokens seen, ...: what the trainer needs to go on
//     index.json                tensor -> file, dtype, shape; written last
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

std::string checkpoint_name(std::int64_t step);  // "step-00000120"
std::string rank_file(int rank);                 // "rank-00003.safetensors"
std::filesystem::path unfinished_path(const std::filesystem::path& folder, std::int64_t step);

struct CheckpointInfo {
  std::int64_t step = 0;
  std::filesystem::path path;
  bool operator==(const CheckpointInfo&) const = default;
};

// Complete checkpoints, by ascending step; none where the folder does not exist.
std::vector<CheckpointInfo> list_checkpoints(const std::filesystem::path& folder);
std::optional<CheckpointInfo> latest_checkpoint(const std::filesystem::path& folder);

// Gives a finished folder its final name, in the place of a checkpoint that has it already (a run that went back and
// came here again), and waits until the name is on the disk.
void publish(const std::filesystem::path& unfinished, const std::filesystem::path& final_path);
// Removes unfinished folders.
void remove_unfinished(const std::filesystem::path& folder);
// Removes all but the newest `keep` and, whatever its step, `newest_written` (0: removes nothing).
void prune_checkpoints(const std::filesystem::path& folder, int keep, std::int64_t newest_written);

}  // namespace trireme::train
