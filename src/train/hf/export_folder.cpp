#include "train/hf/export_folder.h"

#include <fstream>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/errors.h"
#include "base/regular_file.h"
#include "plan/run_folder.h"
#include "train/checkpoint/plain_file_name.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;

std::set<std::string> listed(const fs::path& folder) {
  std::ifstream in = open_regular(folder / export_manifest);
  if (!in) return {};
  const nlohmann::json json = nlohmann::json::parse(in, nullptr, false);
  std::set<std::string> out;
  if (!json.is_object() || !json.contains("files") || !json["files"].is_array())
    throw ConfigError({.file = (folder / export_manifest).string(), .allowed = "not the list that an export writes: remove the folder, or name another"});
  for (const auto& name : json["files"])
    if (name.is_string() && is_plain_file_name(name.get<std::string>())) out.insert(name.get<std::string>());
  return out;
}

}  // namespace

void prepare_export_folder(const fs::path& folder, const std::vector<std::string>& files, bool overwrite) {
  const auto fail = [&](const std::string& what) { throw ConfigError({.key = "--to-hf", .value = folder.string(), .allowed = what}); };
  if (fs::exists(folder) && !fs::is_directory(folder)) fail("is no folder");
  if (fs::is_symlink(folder) && !fs::exists(folder)) fail("is a link, and what it names does not exist");
  if (const std::string what = plan::belongs_to(folder); !what.empty()) fail(what + ": name another folder");
  std::set<std::string> there;
  if (fs::exists(folder))
    for (const auto& entry : fs::directory_iterator(folder)) there.insert(entry.path().filename().string());
  const std::set<std::string> written(files.begin(), files.end());
  const std::set<std::string> before = listed(folder);
  if (!there.empty() && !there.contains(export_manifest) && !overwrite)
    fail(fmt::format("holds files that no export of Trireme has written ({}): name another folder, or give --overwrite, which "
                     "replaces files of the same name", *there.begin()));
  for (const char* weights : {"model.safetensors", "model.safetensors.index.json"})
    if (there.contains(weights) && !written.contains(weights) && !before.contains(weights))
      fail(fmt::format("holds {}, which this export does not replace and transformers may read instead: remove it, or name "
                       "another folder", weights));
  // Nothing is changed before all of it can be: neither what is written, nor what is removed, may be a folder or a pipe.
  std::set<std::string> touched = written;
  touched.insert(before.begin(), before.end());
  for (const std::string& name : touched)
    if (const std::string why = why_not_regular(folder / name); !why.empty())
      fail(fmt::format("holds {}, which {}: remove it, or name another folder", name, why.substr(0, why.find(':'))));
  fs::create_directories(folder);
  for (const std::string& name : before)
    if (!written.contains(name) && there.contains(name)) fs::remove(folder / name);
  const nlohmann::ordered_json json = {{"written_by", "trireme convert"}, {"files", files}};
  write_file_atomically(folder / export_manifest, json.dump(1) + "\n");
}

}  // namespace trireme::train
