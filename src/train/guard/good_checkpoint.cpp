#include "train/guard/good_checkpoint.h"

#include <ranges>

#include <fmt/format.h>

namespace trireme::train {

std::optional<CheckpointInfo> last_good_checkpoint(const std::filesystem::path& folder, std::int64_t first_bad_step) {
  std::optional<CheckpointInfo> out;
  for (const CheckpointInfo& info : list_checkpoints(folder))
    if (info.step + 1 < first_bad_step) out = info;
  return out;
}

std::string describe_good_checkpoint(const std::filesystem::path& folder, std::int64_t first_bad_step) {
  const auto good = last_good_checkpoint(folder, first_bad_step);
  const auto latest = latest_checkpoint(folder);
  if (!latest) return "no checkpoint has been written";
  std::string out = good ? fmt::format("the last good checkpoint is {}", good->path.string()) : "there is no good checkpoint";
  if (!good || latest->step != good->step)
    out += fmt::format(" (that of step {} holds the weights that step {} began with)", latest->step, latest->step + 1);
  return out;
}

void remove_checkpoints_behind(const std::filesystem::path& folder, std::int64_t step) {
  // The newest first: where this is interrupted, a resume must not begin with the weights that were gone back from.
  const auto all = list_checkpoints(folder);
  for (const CheckpointInfo& info : all | std::views::reverse) {
    if (info.step <= step) break;
    // Out of sight first: a removal that is interrupted must not leave half of a checkpoint under its name.
    const std::filesystem::path hidden = unfinished_path(folder, info.step);
    std::filesystem::rename(info.path, hidden);
    std::filesystem::remove_all(hidden);
  }
  if (std::filesystem::exists(folder / best_file)) name_best_checkpoint(folder);
}

}  // namespace trireme::train
