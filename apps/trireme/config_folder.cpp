#include "trireme/config_folder.h"

#include <algorithm>

#include "base/errors.h"

namespace trireme::apps {

namespace fs = std::filesystem;

fs::path config_folder(const Context& context) {
  const auto is_one = [](const fs::path& p) {
    std::error_code ignored;
    return fs::is_directory(p / "platforms", ignored);
  };
  if (const auto given = context.environment.find("TRIREME_CONFIGS"); given != context.environment.end()) {
    if (!is_one(given->second))
      throw ConfigError(
          {.file = given->second, .key = "TRIREME_CONFIGS", .allowed = "a folder with models, platforms and stacks"});
    return given->second;
  }
  std::error_code failed;
  fs::path at = fs::read_symlink("/proc/self/exe", failed);
  if (!failed)
    for (at = at.parent_path(); at.has_relative_path(); at = at.parent_path())
      for (const char* name : {"share/trireme/configs", "configs"})
        if (is_one(at / name)) return at / name;
  if (is_one("configs")) return "configs";
  throw ConfigError({.file = "configs",
                     .allowed = "no folder of models and platforms beside or above the program; set TRIREME_CONFIGS"});
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> out;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().extension() == ".toml") out.push_back(entry.path().stem().string());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace trireme::apps
