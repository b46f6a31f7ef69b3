#include "plan/file_shape.h"

#include <cmath>
#include <cstdint>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/config_table.h"
#include "base/errors.h"
#include "base/json_text.h"

namespace trireme::plan {

namespace {

using nlohmann::json;

// The way to a value, as a chain of callers' frames: text is made only for an error.
struct Place {
  const Place* above = nullptr;
  const std::string* key = nullptr;  // null: an element of an array
  std::size_t index = 0;

  std::string text() const {
    if (!above) return "";
    const std::string head = above->text();
    return key ? head + (head.empty() ? "" : ".") + *key : fmt::format("{}[{}]", head, index);
  }
};

struct File {
  const std::string& name;

  [[noreturn]] void fail(const Place& place, const json& found, std::string allowed) const {
    std::string value = found.is_structured() ? std::string(found.type_name()) : json_text(found);
    if (value.size() > 60) value = value.substr(0, 60) + "...";
    throw ConfigError({.file = name, .key = place.text(), .value = std::move(value), .allowed = std::move(allowed)});
  }
};

void check_number(const json& found, const json& sample, const Place& place, const File& file) {
  const bool whole = sample.is_number_integer();
  if (!found.is_number() || (whole && !found.is_number_integer()))
    file.fail(place, found, whole ? "expected a whole number" : "expected a number");
  const double value = found.get<double>(), given = sample.get<double>();
  const double least = whole ? std::min(given, 0.0) : given < 0 ? -largest_number : 0, most = whole ? INT32_MAX : largest_number;
  if (!(value >= least && value <= most)) file.fail(place, found, fmt::format("must lie in [{:g}, {:g}]", least, most));
}

void check(const json& found, const json& sample, const Place& place, const File& file) {
  if (sample.is_number()) return check_number(found, sample, place, file);
  if (found.type() != sample.type())
    file.fail(place, found, fmt::format("expected {} {}", sample.is_array() || sample.is_object() ? "an" : "a", sample.type_name()));
  if (found.is_array() && !sample.empty())
    for (std::size_t i = 0; i < found.size(); ++i)
      // Pairs of unlike things are arrays, too; all that runs write are of like ones.
      check(found[i], sample.front(), {.above = &place, .index = i}, file);
  if (!found.is_object()) return;
  for (const auto& [key, value] : found.items()) {
    const Place inner{.above = &place, .key = &key};
    const auto known = sample.find(key);
    if (known == sample.end()) file.fail(inner, value, "is none of the keys that a run writes here");
    check(value, *known, inner, file);
  }
}

void check_again(const json& found, const json& again, const Place& place, const File& file) {
  if (found.is_string() && found != again) file.fail(place, found, "is not a word that a run writes here");
  if (found.is_array() && again.is_array())
    for (std::size_t i = 0; i < found.size() && i < again.size(); ++i)
      check_again(found[i], again[i], {.above = &place, .index = i}, file);
  if (!found.is_object() || !again.is_object()) return;
  for (const auto& [key, value] : found.items())
    if (const auto other = again.find(key); other != again.end()) check_again(value, *other, {.above = &place, .key = &key}, file);
}

}  // namespace

void check_shape(const json& found, const json& sample, const std::string& file) { check(found, sample, {}, {file}); }

void check_words(const json& found, const json& again, const std::string& file) { check_again(found, again, {}, {file}); }

}  // namespace trireme::plan
