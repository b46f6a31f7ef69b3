#include "train/checkpoint/checkpoint_choice.h"

#include "base/errors.h"

namespace trireme::train {

CheckpointInfo choose_checkpoint(const std::filesystem::path& folder, const CheckpointChoice& choice,
                                 const std::string& named) {
  const auto fail = [&](std::string what) {
    throw ConfigError({.key = choice.key, .value = named, .allowed = std::move(what)});
  };
  const std::vector<CheckpointInfo> all = list_checkpoints(folder);
  if (all.empty()) fail(fmt::format("holds no complete checkpoint ({})", folder.string()));
  std::string steps;
  for (const CheckpointInfo& info : all) steps += fmt::format("{}{}", steps.empty() ? "" : ", ", info.step);
  if (choice.best) {
    if (const auto best = best_checkpoint(folder)) return best->info;
    fail(fmt::format("none of its checkpoints (steps {}) was evaluated: train.eval_every must divide checkpoint.every", steps));
  }
  if (!choice.step) return all.back();
  for (const CheckpointInfo& info : all)
    if (info.step == *choice.step) return info;
  fail(fmt::format("has no checkpoint of step {}; it has {}", *choice.step, steps));
  return {};
}

}  // namespace trireme::train
