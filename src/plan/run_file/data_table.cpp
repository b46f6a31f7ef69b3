#include "plan/run_file/tables.h"

namespace trireme::plan {

DataSpec read_data(ConfigTable t, const std::filesystem::path& folder) {
  DataSpec s;
  const auto source = [&](const char* key) {
    const std::string value = t.string_or(key, "");
    return value == "random" ? value : resolved_path(t, key, folder, value).string();
  };
  s.train = source("train");
  s.valid = source("valid");
  s.reset_at_documents = t.boolean_or("reset_at_documents", s.reset_at_documents);
  return s;
}

std::string to_toml(const DataSpec& data) {
  return TomlText("data")
      .line("train", data.train)
      .line("valid", data.valid)
      .line("reset_at_documents", data.reset_at_documents)
      .text();
}

}  // namespace trireme::plan
