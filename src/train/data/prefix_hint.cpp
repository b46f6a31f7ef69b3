#include "train/data/prefix_hint.h"

#include <filesystem>
#include <string_view>

#include <fmt/format.h>

namespace trireme::train {
namespace {

namespace fs = std::filesystem;

bool is_there(const std::string& prefix) {
  std::error_code ignored;
  return fs::exists(prefix + ".idx", ignored);
}

}  // namespace

std::string prefix_hint(const std::string& prefix) {
  for (const std::string_view ending : {".bin", ".idx", ".meta.json", ".weights"})
    if (prefix.ends_with(ending)) {
      const std::string without = prefix.substr(0, prefix.size() - ending.size());
      if (is_there(without)) return fmt::format("; a prefix has no ending: did you mean {}?", without);
    }
  for (const char* side : {"_train", "_valid"})
    if (is_there(prefix + side)) return fmt::format("; did you mean {}{}?", prefix, side);
  std::error_code ignored;
  if (fs::is_directory(prefix, ignored)) return "; it is a folder, and a prefix is the beginning of files' names";
  if (fs::is_regular_file(prefix, ignored))
    return fmt::format("; if it is text, `trireme data {} --out PREFIX` makes PREFIX_train of it", prefix);
  return "";
}

}  // namespace trireme::train
