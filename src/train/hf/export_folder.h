// The folder that an export writes: trireme_export.json in it lists the files that are Trireme's, so that the next export
// replaces those and no others.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace trireme::train {

inline constexpr const char* export_manifest = "trireme_export.json";

// Makes the folder ready for these files: removes what an earlier export has left and they do not replace, and writes the
// list. ConfigError (folder) before anything is changed: the folder holds files and no list, unless `overwrite`; then files
// of these names are replaced, and it is still refused where weights would remain that transformers reads instead.
void prepare_export_folder(const std::filesystem::path& folder, const std::vector<std::string>& files, bool overwrite);

}  // namespace trireme::train
