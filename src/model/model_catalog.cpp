#include "model/model_catalog.h"

#include <algorithm>
#include <cctype>

#include "base/edit_distance.h"
#include "base/errors.h"

namespace trireme::model {
namespace fs = std::filesystem;

namespace {

std::vector<fs::path> model_files(const fs::path& folder) {
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error)
    throw ConfigError({.file = folder.string(), .allowed = "no such folder of model files, or it cannot be read"});
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : entries)
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

[[noreturn]] void unknown(const std::string& name, const fs::path& folder, const std::vector<fs::path>& files) {
  std::vector<std::string> known;
  std::string list;
  for (const fs::path& file : files) {
    known.push_back(file.stem().string());
    list += (list.empty() ? "" : ", ") + known.back();
  }
  const std::string nearest = nearest_key(model_key(name), known);
  throw ConfigError({.key = "model",
                     .value = name,
                     .allowed = nearest.empty()
                                    ? fmt::format("no such model in {}; there are {}", folder.string(), list)
                                    : fmt::format("no such model in {}; did you mean {}?", folder.string(), nearest)});
}

bool is_file_name(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".toml") || text.ends_with(".json");
}

}  // namespace

std::string model_key(const std::string& name) {
  std::string key;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte))
      key += static_cast<char>(std::tolower(byte));
    else if (!key.empty() && key.back() != '_')
      key += '_';
  }
  if (key.ends_with('_')) key.pop_back();
  return key;
}

ModelCatalog::ModelCatalog(const fs::path& folder) {
  for (const fs::path& file : model_files(folder)) {
    ModelSpec spec = load_model(file);
    entries_.push_back({file.stem().string(), model_key(spec.name), std::move(spec)});
  }
}

std::optional<ModelSpec> ModelCatalog::find(const std::string& name) const {
  const std::string key = model_key(name);
  for (const Entry& entry : entries_)
    if (model_key(entry.file_name) == key) return entry.spec;
  for (const Entry& entry : entries_)
    if (entry.name_key == key) return entry.spec;
  return std::nullopt;
}

std::vector<std::string> ModelCatalog::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.file_name);
  return names;
}

const ModelSpec& ModelCatalog::model(const std::string& file_name) const {
  const auto found = std::ranges::find(entries_, file_name, &Entry::file_name);
  TRIREME_CHECK(found != entries_.end(), "no model {}", file_name);
  return found->spec;
}

ModelSpec find_model(const std::string& name_or_file, const fs::path& folder,
                     const std::vector<std::string>& overrides) {
  if (is_file_name(name_or_file)) return load_model(name_or_file, overrides);
  const std::vector<fs::path> files = model_files(folder);
  const std::string key = model_key(name_or_file);
  for (const fs::path& file : files)
    if (model_key(file.stem().string()) == key) return load_model(file, overrides);
  for (const fs::path& file : files)
    if (model_key(load_model(file).name) == key) return load_model(file, overrides);
  unknown(name_or_file, folder, files);
}

}  // namespace trireme::model
