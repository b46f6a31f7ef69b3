#include <set>

#include <nlohmann/json.hpp>

#include "plan/run_file/tables.h"

namespace trireme::plan {

namespace {

std::string read_prefix(const ConfigTable& t, const char* key, const std::string& value,
                        const std::filesystem::path& folder) {
  return value == "random" ? value : resolved_path(t, key, folder, value).string();
}

// A prefix, or an array of tables: [[data.train]] path = "...", weight = 2, name = "code".
std::vector<DataSet> read_sets(ConfigTable& t, const char* key, const std::filesystem::path& folder) {
  std::vector<DataSet> sets;
  if (!t.is_array(key)) {
    const std::string prefix = read_prefix(t, key, t.string_or(key, ""), folder);
    if (!prefix.empty()) sets.push_back({.prefix = prefix});
    return sets;
  }
  std::set<std::string> names;
  for (ConfigTable& entry : t.tables(key)) {
    DataSet set;
    set.prefix = read_prefix(t, key, entry.string("path"), folder);
    if (set.prefix.empty()) entry.fail("path", "must name a data set");
    set.weight = entry.number_or("weight", set.weight, 0);
    if (set.weight == 0) entry.fail("weight", "must be above 0");
    set.name = entry.string_or("name", "");
    if (!names.insert(name_of(set)).second)
      entry.fail(entry.has("name") ? "name" : "path",
                 fmt::format("is the second set with the name \"{}\": give each a name of its own", name_of(set)));
    sets.push_back(std::move(set));
  }
  return sets;
}

std::string sets_to_toml(const std::vector<DataSet>& sets) {
  const auto quoted = [](const std::string& text) { return nlohmann::json(text).dump(); };
  if (sets.empty()) return quoted("");
  if (sets.size() == 1 && sets[0] == DataSet{.prefix = sets[0].prefix}) return quoted(sets[0].prefix);
  std::string out;
  for (const DataSet& set : sets) {
    out += fmt::format("{}{{ path = {}, weight = {}", out.empty() ? "" : ", ", quoted(set.prefix), set.weight);
    if (!set.name.empty()) out += fmt::format(", name = {}", quoted(set.name));
    out += " }";
  }
  return fmt::format("[ {} ]", out);
}

}  // namespace

std::string name_of(const DataSet& set) {
  return set.name.empty() ? std::filesystem::path(set.prefix).filename().string() : set.name;
}

DataSpec read_data(ConfigTable t, const std::filesystem::path& folder) {
  DataSpec s;
  s.train = read_sets(t, "train", folder);
  s.valid = read_sets(t, "valid", folder);
  s.reset_at_documents = t.boolean_or("reset_at_documents", s.reset_at_documents);
  return s;
}

std::string to_toml(const DataSpec& data) {
  return TomlText("data")
      .raw("train", sets_to_toml(data.train))
      .raw("valid", sets_to_toml(data.valid))
      .line("reset_at_documents", data.reset_at_documents)
      .text();
}

}  // namespace trireme::plan
