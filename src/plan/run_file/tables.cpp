#include "plan/run_file/tables.h"

#include <nlohmann/json.hpp>

#include "base/utf8.h"

namespace trireme::plan {

std::filesystem::path resolved_path(const ConfigTable& table, const char* key, const std::filesystem::path& folder,
                                    const std::string& path) {
  if (path.empty()) return {};
  if (path.find('\0') != std::string::npos) table.fail(key, "holds a zero byte, which no path may");
  const auto base = table.overridden(key) ? std::filesystem::current_path() : folder;
  const auto out = (std::filesystem::absolute(base) / path).lexically_normal();
  if (first_not_utf8(out.string()) < out.string().size()) table.fail(key, "is not UTF-8, which the files of a run must be");
  return out;
}

TomlText& TomlText::line(const char* key, const std::string& value) {
  return raw(key, nlohmann::json(value).dump());
}

TomlText& TomlText::line(const char* key, const std::vector<std::string>& values) {
  return raw(key, nlohmann::json(values).dump());
}

TomlText& TomlText::raw(const char* key, const std::string& toml) {
  text_ += fmt::format("{} = {}\n", key, toml);
  return *this;
}

}  // namespace trireme::plan
