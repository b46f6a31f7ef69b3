#include "plan/run_folder.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include "base/errors.h"
#include "base/regular_file.h"

namespace trireme::plan {

namespace fs = std::filesystem;

namespace {

constexpr const char *lock_name = "run.lock", *checkpoints_name = "checkpoints";
constexpr std::array file_names = {"run.toml",      "plan.json",     "costs.json", "predicted.json",
                                   "metrics.jsonl", "run_info.json", lock_name};
constexpr std::array folder_names = {checkpoints_name, "hf", "measured", "tensorboard"};

bool is_there(const fs::path& path) {
  std::error_code unreadable;
  return fs::exists(path, unreadable);
}

bool is_folder(const fs::path& path) {
  std::error_code unreadable;
  return fs::is_directory(path, unreadable);
}

bool is_dangling(const fs::path& path) {
  std::error_code unreadable;
  return fs::is_symlink(path, unreadable) && !is_there(path);
}

bool is_checkpoint(const fs::path& folder) {
  return is_there(folder / "index.json") && is_there(folder / "state.json");
}

bool is_model(const fs::path& folder) {
  return is_there(folder / "config.json") &&
         (is_there(folder / "model.safetensors") || is_there(folder / "model.safetensors.index.json"));
}

// Nothing, checkpoints, or what a run that was killed has left of them.
bool holds_checkpoints_alone(const fs::path& folder) {
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(folder, unreadable)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(".tmp-step-") && name != "best.json" && !is_checkpoint(entry.path())) return false;
  }
  return true;
}

bool is_empty_folder(const fs::path& path) {
  std::error_code unreadable;
  return is_folder(path) && fs::is_empty(path, unreadable);
}

std::string prefix_of_data(const fs::path& file) {
  const std::string name = file.string();
  for (const std::string_view end : {".bin", ".idx", ".weights", ".meta.json"})
    if (name.ends_with(end)) {
      std::string prefix = name.substr(0, name.size() - end.size());
      if (is_there(prefix + ".bin") && is_there(prefix + ".idx")) return prefix;
    }
  return {};
}

fs::path resolved(const fs::path& path) {
  std::error_code failed;
  fs::path given = fs::absolute(path, failed);
  if (!given.has_filename()) given = given.parent_path();  // a slash at its end
  const fs::path out = fs::weakly_canonical(given, failed);
  return failed ? given.lexically_normal() : out;
}

// Why nobody could make or write the folder, as the system says it.
std::error_code refusal(const fs::path& folder) {
  std::error_code error;
  [[maybe_unused]] const fs::file_status status = fs::status(folder, error);
  if (error && error != std::errc::no_such_file_or_directory) return error;  // a name that is too long, a ring of links
  fs::path there = resolved(folder);
  while (there.has_relative_path() && !is_there(there)) there = there.parent_path();
  if (!is_folder(there)) return std::make_error_code(std::errc::not_a_directory);
  if (::access(there.c_str(), W_OK | X_OK) != 0) return {errno, std::generic_category()};
  return {};
}

}  // namespace

bool is_run_folder(const fs::path& folder) {
  return is_there(folder / "run_info.json") || is_there(folder / lock_name) ||
         (is_there(folder / "plan.json") && (is_there(folder / "predicted.json") || is_there(folder / "run.toml")));
}

std::string belongs_to(const fs::path& path) {
  const fs::path real = resolved(path);
  if (is_checkpoint(real)) return "is a checkpoint";
  fs::path below = real;
  for (fs::path folder = real.parent_path(); below != folder; below = folder, folder = folder.parent_path()) {
    const std::string name = below.filename().string();
    if (is_checkpoint(folder)) return fmt::format("is in the checkpoint {}", folder.string());
    const bool names_file = std::ranges::find(file_names, name) != file_names.end();
    const bool names_folder = std::ranges::find(folder_names, name) != folder_names.end();
    if (!is_run_folder(folder) || (below != real && !names_folder) || !(names_file || names_folder)) continue;
    return fmt::format("is {}{} of the run in {}", below == real ? "" : "in ", name, folder.string());
  }
  if (is_there(real) && !is_folder(real) && is_model(real.parent_path()))
    return fmt::format("is a file of the model in {}", real.parent_path().string());
  if (const std::string prefix = prefix_of_data(real); !prefix.empty() && is_there(real))
    return fmt::format("is a file of the data set {}", prefix);
  return {};
}

void check_run_folder(const RunSpec& run) {
  const fs::path& folder = run.folder;
  const auto fail = [&](std::string why) {
    throw ConfigError({.file = run.file, .key = "folder", .value = folder.string(), .allowed = std::move(why)});
  };
  if (is_dangling(folder)) fail("is a link, and what it names does not exist");
  if (const std::error_code error = refusal(folder)) fail(fmt::format("can't be made or written: {}", error.message()));
  if (const std::string what = belongs_to(folder); !what.empty()) fail(what + ": name another folder");
  if (!is_there(folder)) return;
  const auto fail_entry = [&](const char* name, std::string why) {
    throw ConfigError({.file = (folder / name).string(), .allowed = std::move(why)});
  };
  for (const char* name : file_names) {
    if (is_dangling(folder / name)) fail_entry(name, "is a link, and what it names does not exist: remove it");
    if (std::string why = why_not_regular(folder / name); !why.empty()) fail_entry(name, std::move(why));
  }
  for (const char* name : folder_names)
    if (is_there(folder / name) && !is_folder(folder / name))
      fail_entry(name, "is no folder, and a run keeps a folder of that name");
  if (is_run_folder(folder)) return;
  const auto is_foreign = [&](const char* name) {
    if (name == std::string_view(checkpoints_name)) return !holds_checkpoints_alone(folder / name);
    return is_there(folder / name) && !is_empty_folder(folder / name);
  };
  const auto refuse_foreign = [&](const char* name) {
    if (is_foreign(name))
      fail(fmt::format("holds {}, which no run has written and this one would write over: name another folder", name));
  };
  for (const char* name : file_names) refuse_foreign(name);
  for (const char* name : folder_names) refuse_foreign(name);
}

}  // namespace trireme::plan
