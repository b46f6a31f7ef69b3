#include "train/checkpoint/checkpoint_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/errors.h"
#include "train/checkpoint/checkpoint_state.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view prefix = "step-", unfinished_prefix = ".tmp-step-", removed_prefix = ".tmp-step-removed-";

std::vector<fs::path> children(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder, missing)) out.push_back(entry.path());
  return out;
}

// By ascending step.
std::vector<CheckpointInfo> named_as_checkpoints(const fs::path& folder, bool with_index) {
  std::vector<CheckpointInfo> out;
  for (const fs::path& path : children(folder)) {
    const auto step = step_of_name(path.filename().string());
    if (step && fs::exists(path / index_file) == with_index) out.push_back({*step, path});
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return out;
}

}  // namespace

std::optional<std::int64_t> step_of_name(const std::string& name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const char* begin = name.data() + prefix.size();
  const char* end = name.data() + name.size();
  std::int64_t step = 0;
  const auto [rest, error] = std::from_chars(begin, end, step);
  if (error != std::errc{} || rest != end || step < 0) return std::nullopt;
  return step;
}

std::string checkpoint_name(std::int64_t step) {
  return fmt::format("{}{:08}", prefix, step);
}
std::string rank_file(int rank) {
  return fmt::format("rank-{:05}.safetensors", rank);
}
fs::path unfinished_path(const fs::path& folder, std::int64_t step) {
  return folder / fmt::format("{}{:08}", unfinished_prefix, step);
}

std::vector<CheckpointInfo> list_checkpoints(const fs::path& folder) {
  return named_as_checkpoints(folder, /*with_index=*/true);
}

std::vector<CheckpointInfo> damaged_checkpoints(const fs::path& folder, std::int64_t behind) {
  std::vector<CheckpointInfo> out = named_as_checkpoints(folder, /*with_index=*/false);
  std::erase_if(out, [&](const CheckpointInfo& info) { return info.step <= behind; });
  return out;
}

std::optional<CheckpointInfo> latest_checkpoint(const fs::path& folder) {
  const auto all = list_checkpoints(folder);
  return all.empty() ? std::nullopt : std::optional(all.back());
}

void publish(const fs::path& unfinished, const fs::path& final_path) {
  const fs::path replaced = unfinished.string() + "-replaced";
  fs::remove_all(replaced);
  if (fs::exists(final_path)) fs::rename(final_path, replaced);
  fs::rename(unfinished, final_path);
  fs::remove_all(replaced);
  const int fd = ::open(final_path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);  // some file systems refuse it for folders
  ::close(fd);
}

void remove_unfinished(const fs::path& folder) {
  for (const fs::path& path : children(folder)) {
    if (path.filename().string().starts_with(unfinished_prefix)) fs::remove_all(path);
  }
}

std::optional<BestCheckpoint> best_checkpoint(const fs::path& folder) {
  std::optional<BestCheckpoint> best;
  for (CheckpointInfo& info : list_checkpoints(folder)) {
    try {
      const auto loss = CheckpointState(info.path / state_file).number(eval_loss_key);
      if (loss && std::isfinite(*loss) && (!best || *loss < best->eval_loss)) best = {std::move(info), *loss};
    } catch (const ConfigError&) {
      // A damaged one is no candidate; whoever resumes from it is told.
    }
  }
  return best;
}

std::optional<BestCheckpoint> name_best_checkpoint(const fs::path& folder) {
  const auto best = best_checkpoint(folder);
  if (best) {
    const nlohmann::ordered_json named = {
        {"step", best->info.step}, {"eval_loss", best->eval_loss}, {"folder", best->info.path.filename().string()}};
    write_file_atomically(folder / best_file, named.dump(1) + "\n");
  } else {
    fs::remove(folder / best_file);
  }
  return best;
}

void prune_checkpoints(const fs::path& folder, const KeepPolicy& keep, std::int64_t newest_written) {
  std::optional<BestCheckpoint> best;
  if (keep.best) best = name_best_checkpoint(folder);
  if (keep.newest <= 0) return;
  std::vector<CheckpointInfo> all = list_checkpoints(folder);
  std::erase_if(all, [&](const CheckpointInfo& info) { return info.step == newest_written; });
  all.resize(all.size() - std::min(all.size(), static_cast<std::size_t>(keep.newest) - 1));
  std::erase_if(all, [&](const CheckpointInfo& info) {
    return (keep.every > 0 && info.step % keep.every == 0) || (best && best->info == info);
  });
  for (; !all.empty(); all.erase(all.begin())) {
    // Out of sight first: a removal that is interrupted must not leave half of a checkpoint under its name.
    const fs::path hidden = folder / fmt::format("{}{:08}", removed_prefix, all.front().step);
    fs::rename(all.front().path, hidden);
    fs::remove_all(hidden);
  }
}

}  // namespace trireme::train
