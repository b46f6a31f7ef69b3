#include <cmath>
#include <set>

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "train/data/data_position.h"

namespace trireme::train {
namespace {

// Far above any run, and sums of a few stay whole.
constexpr std::int64_t most = std::int64_t{1} << 60;

class Reader {
 public:
  Reader(const nlohmann::json& json, std::string key, const std::string& file)
      : json_(json), key_(std::move(key)), file_(file) {
    if (!json_.is_object()) fail("", "must be an object");
  }

  std::int64_t count(const char* key) const {
    const auto& value = at(key);
    if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<std::uint64_t>() > most) ||
        value.get<std::int64_t>() < 0 || value.get<std::int64_t>() > most)
      fail(key, "must be a whole number of at least 0");
    return value.get<std::int64_t>();
  }
  std::uint64_t seed(const char* key) const {
    const auto& value = at(key);
    if (!value.is_number_integer()) fail(key, "must be a whole number");
    return value.get<std::uint64_t>();
  }
  double weight(const char* key) const {
    const auto& value = at(key);
    if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() < 0)
      fail(key, "must be a number of at least 0");
    return value.get<double>();
  }
  std::string string(const char* key) const {
    if (!at(key).is_string()) fail(key, "must be a string");
    return at(key).get<std::string>();
  }
  bool boolean(const char* key) const {
    if (!at(key).is_boolean()) fail(key, "must be true or false");
    return at(key).get<bool>();
  }
  const nlohmann::json& array(const char* key) const {
    if (!at(key).is_array() || at(key).empty()) fail(key, "must be a list that is not empty");
    return at(key);
  }
  [[noreturn]] void fail(const std::string& key, const std::string& what) const {
    const std::string dotted = key.empty() ? key_ : key_ + "." + key;
    const bool there = !key.empty() && json_.is_object() && json_.contains(key);
    throw ConfigError({.file = file_, .key = dotted, .value = there ? json_[key].dump() : "", .allowed = what});
  }

 private:
  const nlohmann::json& at(const char* key) const {
    if (!json_.contains(key)) fail(key, "is missing");
    return json_[key];
  }
  const nlohmann::json& json_;
  std::string key_;
  const std::string& file_;
};

}  // namespace

nlohmann::json to_json(const DataPosition& position) {
  nlohmann::json sets = nlohmann::json::array();
  for (const SetPosition& set : position.sets)
    sets.push_back({{"name", set.name},
                    {"prefix", set.prefix},
                    {"weight", set.weight},
                    {"first", set.first},
                    {"tokens_before", set.tokens_before},
                    {"num_tokens", set.num_tokens},
                    {"fingerprint", set.fingerprint}});
  return {{"seed", position.seed},
          {"sequence_length", position.sequence_length},
          {"reset_at_documents", position.reset_at_documents},
          {"blend_start", position.blend_start},
          {"sets", sets}};
}

DataPosition data_position_from_json(const nlohmann::json& json, const std::string& file) {
  const Reader top(json, "data", file);
  DataPosition out{.seed = top.seed("seed"),
                   .sequence_length = top.count("sequence_length"),
                   .reset_at_documents = top.boolean("reset_at_documents"),
                   .blend_start = top.count("blend_start")};
  if (out.sequence_length == 0) top.fail("sequence_length", "must be above 0");
  std::set<std::string> names;
  bool any = false;
  for (const auto& entry : top.array("sets")) {
    const Reader set(entry, fmt::format("data.sets[{}]", out.sets.size()), file);
    out.sets.push_back({.name = set.string("name"),
                        .prefix = set.string("prefix"),
                        .weight = set.weight("weight"),
                        .first = set.count("first"),
                        .tokens_before = set.count("tokens_before"),
                        .num_tokens = set.count("num_tokens"),
                        .fingerprint = set.string("fingerprint")});
    if (!names.insert(out.sets.back().name).second) set.fail("name", "is there twice");
    any = any || out.sets.back().weight > 0;
  }
  if (!any) top.fail("sets", "must have one with a weight above 0");
  return out;
}

}  // namespace trireme::train
