// Models by name: a folder of TOML files, one a model (configs/models).
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/model_spec.h"

namespace trireme::model {

// What two names are compared by: "DeepSeek-V3", "deepseek v3" and "deepseek_v3" are one.
std::string model_key(const std::string& name);

class ModelCatalog {
 public:
  // ConfigError where the folder can't be read or a file in it isn't a valid model.
  explicit ModelCatalog(const std::filesystem::path& folder);

  // By a file's name without its ending, or by the name inside it.
  std::optional<ModelSpec> find(const std::string& name) const;
  std::vector<std::string> names() const;  // the files', sorted
  const ModelSpec& model(const std::string& file_name) const;

 private:
  struct Entry {
    std::string file_name, name_key;
    ModelSpec spec;
  };
  std::vector<Entry> entries_;
};

// What `--model` takes: a file (it ends in .toml or .json, or has a folder in front) or a name in the catalog's folder.
// Overrides as of load_model. ConfigError with the nearest name where there is none such.
ModelSpec find_model(const std::string& name_or_file, const std::filesystem::path& folder,
                     const std::vector<std::string>& overrides = {});

}  // namespace trireme::model
