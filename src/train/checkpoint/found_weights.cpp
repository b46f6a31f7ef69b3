#include "train/checkpoint/found_weights.h"

#include "base/errors.h"
#include "plan/run_spec.h"
#include "train/checkpoint/checkpoint_folder.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;

// A checkpoint knows its run by where it lies.
std::optional<fs::path> run_file_above(const fs::path& checkpoint) {
  const fs::path file = fs::absolute(checkpoint / "").lexically_normal().parent_path().parent_path().parent_path() / "run.toml";
  return fs::exists(file) ? std::optional(file) : std::nullopt;
}

}  // namespace

FoundWeights find_weights(const fs::path& path, const CheckpointChoice& choice, const std::vector<std::string>& overrides) {
  const auto fail = [&](std::string what) {
    throw ConfigError({.key = choice.key, .value = path.string(), .allowed = std::move(what)});
  };
  if (!fs::exists(path)) fail("no such folder or file");
  if (fs::exists(path / index_file) || fs::exists(path / "config.json")) {
    const bool checkpoint = fs::exists(path / index_file);
    if (choice.step || choice.best)
      fail(fmt::format("is one {}: a step can be chosen in a run's folder or a folder of checkpoints",
                       checkpoint ? "checkpoint" : "Hugging Face folder"));
    return {.folder = path, .hugging_face = !checkpoint, .run_file = checkpoint ? run_file_above(path) : std::nullopt};
  }
  const auto chosen = [&](const fs::path& folder, std::optional<fs::path> run_file) {
    const CheckpointInfo info = choose_checkpoint(folder, choice, path.string());
    if (run_file) return FoundWeights{.folder = info.path, .step = info.step, .run_file = std::move(run_file), .is_run = true};
    return FoundWeights{.folder = info.path, .step = info.step, .run_file = run_file_above(info.path)};
  };
  if (fs::is_regular_file(path) && path.extension() == ".toml") {
    const fs::path folder = plan::load_run(path, overrides).folder;
    if (!fs::is_directory(folder)) fail(fmt::format("this run's folder {} is not there: it has not been trained", folder.string()));
    return chosen(folder / "checkpoints", path);
  }
  if (fs::exists(path / "run.toml")) return chosen(path / "checkpoints", path / "run.toml");
  for (const fs::path& folder : {path, path / "checkpoints"})
    if (!list_checkpoints(folder).empty()) return chosen(folder, std::nullopt);
  fail("holds no weights: expected a checkpoint (with index.json), a folder of checkpoints, a run's folder or file, or a Hugging "
       "Face folder (with config.json and safetensors)");
  return {};
}

}  // namespace trireme::train
