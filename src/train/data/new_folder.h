// A folder for files that may not come: what had to be made and is still empty at the end is removed again.
#pragma once
#include <filesystem>
#include <vector>

namespace trireme::train {

class NewFolder {
 public:
  // Makes it and the folders that it lies in. std::system_error where that fails; an empty path is the working folder.
  explicit NewFolder(const std::filesystem::path& folder) {
    namespace fs = std::filesystem;
    if (folder.empty()) return;
    for (fs::path at = folder; !at.empty() && !fs::exists(at); at = at.parent_path()) made_.push_back(at);
    fs::create_directories(folder);
  }
  ~NewFolder() {
    std::error_code not_empty;
    for (const auto& folder : made_) std::filesystem::remove(folder, not_empty);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

 private:
  std::vector<std::filesystem::path> made_;  // the innermost first
};

}  // namespace trireme::train
