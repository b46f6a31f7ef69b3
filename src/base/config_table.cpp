#include "base/config_table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include <toml++/toml.h>

#include "base/edit_distance.h"
#include "base/errors.h"
#include "base/key_aliases.h"
#include "base/read_file.h"
#include "base/utf8.h"

namespace trireme {

// One table of the document. Children are made on demand and kept, so that finish() sees what was read of each.
struct ConfigTable::Node {
  struct Document {
    toml::table root;
    std::string file;
    std::vector<std::string> overridden;  // dotted keys given on the command line
    std::weak_ptr<Node> top;
  };

  std::shared_ptr<Document> document;
  const toml::table* table = nullptr;        // null: absent in the file, reads as empty
  std::string prefix;                        // "layout." or ""
  std::set<std::string, std::less<>> asked;  // keys that some reader knows, present or not
  std::map<std::string, std::shared_ptr<Node>, std::less<>> children;
  std::map<std::string, std::vector<std::shared_ptr<Node>>, std::less<>> lists;

  const toml::node* find(std::string_view key) const { return table ? table->get(key) : nullptr; }

  std::string file_of(const std::string& dotted_key) const {
    for (const std::string& key : document->overridden)
      if (dotted_key == key || dotted_key.starts_with(key + ".") || dotted_key.starts_with(key + "[") || key.starts_with(dotted_key + ".")) return "--set";
    return document->file;
  }

  [[noreturn]] void error(std::string_view key, std::string value, std::string allowed) const {
    const std::string dotted_key = prefix + std::string(key);
    throw ConfigError(
        {.file = file_of(dotted_key), .key = dotted_key, .value = std::move(value), .allowed = std::move(allowed)});
  }

  void known_keys(std::vector<std::string>& out) const {
    for (const std::string& key : asked) out.push_back(prefix + key);
    for (const auto& [key, child] : children) child->known_keys(out);
    for (const auto& [key, list] : lists)
      for (const auto& child : list) child->known_keys(out);
  }
};

namespace {

// One line, whatever it is.
std::string show(const toml::node& node) {
  constexpr std::size_t longest = 60;
  if (const auto* table = node.as_table()) return table->empty() ? "{}" : "{ ... }";
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());  // shortest exact form
  if (const auto* array = node.as_array()) {
    std::string out;
    for (const toml::node& element : *array) {
      if (out.size() > longest) return fmt::format("[ {}, ... ]", out);
      out += (out.empty() ? "" : ", ") + show(element);
    }
    return out.empty() ? "[]" : fmt::format("[ {} ]", out);
  }
  if (const auto* text = node.as_string()) {
    std::string line = text->get();
    std::ranges::replace_if(line, [](unsigned char c) { return c < 32 || c == 127; }, ' ');
    return fmt::format("\"{}\"", line);
  }
  std::ostringstream out;
  node.visit([&](const auto& value) { out << toml::toml_formatter{value}; });
  return out.str();
}

// toml++ gives nothing for an integer that a double can't hold exactly.
double as_double(const toml::node& node) {
  const auto* integer = node.as_integer();
  return integer ? static_cast<double>(integer->get()) : node.as_floating_point()->get();
}

const char* type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a floating-point number";
    case toml::node_type::boolean:
      return "a boolean";
    default:
      return "a date or time";
  }
}

std::string expected(const char* wanted, const toml::node& found) {
  return fmt::format("expected {}, found {}", wanted, type_name(found));
}

// A bound that nobody set is named only where it is the one that the value breaks.
template <class T>
std::string range(T value, T at_least, T at_most, T lowest, T highest) {
  if (at_least != lowest && at_most != highest) return fmt::format("must lie in [{}, {}]", at_least, at_most);
  return value > at_most || (at_least == lowest && !(value < at_least)) ? fmt::format("must be at most {}", at_most)
                                                                        : fmt::format("must be at least {}", at_least);
}

toml::table parse(std::string_view text, const std::string& file) {
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& e) {
    throw ConfigError({.file = fmt::format("{}:{}:{}", file, e.source().begin.line, e.source().begin.column),
                       .allowed = fmt::format("not valid TOML: {}", e.description())});
  }
}

// The right side of an override: TOML, or a bare word as a string. What opens like a TOML string, array or table
// but does not parse is a mistake, not a word.
void parse_override_value(const std::string& key, const std::string& text, toml::table& holder) {
  try {
    holder = toml::parse("value = " + text);
    if (holder.size() == 1) return;
    throw ConfigError({.file = "--set", .key = key, .value = "several lines", .allowed = "one KEY=VALUE each"});
  } catch (const toml::parse_error& e) {
    const bool long_number = text.find_first_not_of("+-_0123456789") == std::string::npos && text.size() > 10;
    if (text.find_first_of("\"'[{") == 0 || text.find('\n') != std::string::npos || long_number)
      throw ConfigError(
          {.file = "--set", .key = key, .value = text, .allowed = fmt::format("not valid TOML: {}", e.description())});
  }
  holder = toml::table{{"value", text}};
}

std::string apply_override(toml::table& root, const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw ConfigError({.file = "--set", .value = text, .allowed = "expected KEY=VALUE, such as layout.pp=2"});
  const auto trim = [](std::string s) {
    const auto first = s.find_first_not_of(" \t"), last = s.find_last_not_of(" \t");
    return first == std::string::npos ? std::string() : s.substr(first, last - first + 1);
  };
  const std::string key = trim(text.substr(0, equals));
  if (("." + key + ".").find("..") != std::string::npos)
    throw ConfigError(
        {.file = "--set", .value = text, .allowed = "a part of the key is empty: expected such as layout.pp=2"});
  if (first_not_utf8(text) < text.size())
    throw ConfigError({.file = "--set", .value = text, .allowed = "not UTF-8"});
  toml::table holder;
  parse_override_value(key, trim(text.substr(equals + 1)), holder);

  toml::table* table = &root;
  std::size_t begin = 0;
  for (std::size_t dot; (dot = key.find('.', begin)) != std::string::npos; begin = dot + 1) {
    const std::string part = key.substr(begin, dot - begin);
    if (!table->contains(part)) table->insert(part, toml::table{});
    table = table->get(part)->as_table();
    if (!table)
      throw ConfigError({.file = "--set", .key = key, .allowed = fmt::format("{} is not a table", key.substr(0, dot))});
  }
  holder.get("value")->visit([&](const auto& value) { table->insert_or_assign(key.substr(begin), value); });
  return key;
}

}  // namespace

ConfigTable::ConfigTable(std::shared_ptr<Node> node) : node_(std::move(node)) {}

ConfigTable ConfigTable::from_text(std::string_view text, std::string file_name,
                                   const std::vector<std::string>& overrides) {
  auto document = std::make_shared<Node::Document>();
  document->root = parse(text, file_name);
  document->file = std::move(file_name);
  for (const std::string& text_of_one : overrides)
    document->overridden.push_back(apply_override(document->root, text_of_one));
  auto node = std::make_shared<Node>();
  node->table = &document->root;
  node->document = document;
  document->top = node;
  return ConfigTable(std::move(node));
}

ConfigTable ConfigTable::from_file(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  return from_text(read_file(path), path.string(), overrides);
}

bool ConfigTable::has(std::string_view key) const {
  return node_->find(key) != nullptr;
}

bool ConfigTable::is_string(std::string_view key) const {
  const toml::node* found = node_->find(key);
  return found && found->is_string();
}

bool ConfigTable::is_array(std::string_view key) const {
  const toml::node* found = node_->find(key);
  return found && found->is_array();
}

bool ConfigTable::overridden(std::string_view key) const {
  return node_->file_of(dotted(key)) == "--set";
}

std::vector<std::string> ConfigTable::given() const {
  std::vector<std::string> out;
  const auto collect = [&](const auto& self, const toml::table& table, const std::string& prefix) -> void {
    for (const auto& [name, value] : table)
      if (const toml::table* inner = value.as_table())
        self(self, *inner, prefix + std::string(name.str()) + ".");
      else
        out.push_back(prefix + std::string(name.str()));
  };
  if (node_->table) collect(collect, *node_->table, node_->prefix);
  return out;
}

const std::string& ConfigTable::file() const {
  return node_->document->file;
}

std::string ConfigTable::dotted(std::string_view key) const {
  return node_->prefix + std::string(key);
}

std::string ConfigTable::to_toml() const {
  std::ostringstream out;
  if (node_->table) out << toml::toml_formatter{*node_->table} << "\n";
  return out.str();
}

void ConfigTable::fail(std::string_view key, std::string allowed) const {
  const toml::node* found = nullptr;
  if (node_->table) found = node_->table->at_path(key).node();
  node_->error(key, found ? show(*found) : "", std::move(allowed));
}

void ConfigTable::missing(std::string_view key, const char* wanted) const {
  std::string hint;
  std::size_t best = 4;
  if (node_->table)
    for (const auto& [name, value] : *node_->table) {
      const std::size_t distance = edit_distance(name.str(), key);
      if (node_->asked.contains(name.str()) || distance >= best) continue;
      best = distance;
      hint = fmt::format(" (found {}{})", node_->prefix, name.str());
    }
  node_->error(key, "", fmt::format("is missing: {} is needed{}", wanted, hint));
}

std::int64_t ConfigTable::integer_or(std::string_view key, std::int64_t otherwise, std::int64_t at_least,
                                     std::int64_t at_most) {
  node_->asked.emplace(key);
  const toml::node* found = node_->find(key);
  if (!found) return otherwise;
  const auto* value = found->as_integer();
  if (!value) node_->error(key, show(*found), expected("an integer", *found));
  if (value->get() < at_least || value->get() > at_most)
    node_->error(key, show(*found), range<std::int64_t>(value->get(), at_least, at_most, INT64_MIN, INT64_MAX));
  return value->get();
}

std::int64_t ConfigTable::integer(std::string_view key, std::int64_t at_least, std::int64_t at_most) {
  if (!has(key)) missing(key, "an integer");
  return integer_or(key, 0, at_least, at_most);
}

double ConfigTable::number_or(std::string_view key, double otherwise, double at_least, double at_most) {
  node_->asked.emplace(key);
  const toml::node* found = node_->find(key);
  if (!found) return otherwise;
  if (!found->is_number()) node_->error(key, show(*found), expected("a number", *found));
  const double value = as_double(*found);
  check_number(key, value, at_least, at_most);
  return value;
}

void ConfigTable::check_number(std::string_view key, double value, double at_least, double at_most) const {
  const std::string shown = show(*node_->find(key));
  if (std::isnan(value)) node_->error(key, shown, "must be a number");
  if (!(value >= at_least && value <= at_most))
    node_->error(key, shown, range(value, at_least, at_most, -largest_number, largest_number));
  if (value != 0 && std::abs(value) < smallest_number)
    node_->error(key, shown, fmt::format("must be 0 or at least {} in magnitude", smallest_number));
}

double ConfigTable::number(std::string_view key, double at_least, double at_most) {
  if (!has(key)) missing(key, "a number");
  return number_or(key, 0, at_least, at_most);
}

bool ConfigTable::boolean_or(std::string_view key, bool otherwise) {
  node_->asked.emplace(key);
  const toml::node* found = node_->find(key);
  if (!found) return otherwise;
  const auto* value = found->as_boolean();
  if (!value) node_->error(key, show(*found), expected("true or false", *found));
  return value->get();
}

std::string ConfigTable::string_or(std::string_view key, std::string otherwise) {
  node_->asked.emplace(key);
  const toml::node* found = node_->find(key);
  if (!found) return otherwise;
  const auto* value = found->as_string();
  if (!value) node_->error(key, show(*found), expected("a string", *found));
  return value->get();
}

std::string ConfigTable::string(std::string_view key) {
  if (!has(key)) missing(key, "a string");
  return string_or(key, "");
}

std::string ConfigTable::one_of_or(std::string_view key, std::string otherwise,
                                   std::initializer_list<std::string_view> allowed) {
  const std::string value = string_or(key, std::move(otherwise));
  if (std::find(allowed.begin(), allowed.end(), value) == allowed.end())
    fail(key, fmt::format("must be one of {}", fmt::join(allowed, ", ")));
  return value;
}

template <class T>
std::vector<T> ConfigTable::list_or(std::string_view key, std::vector<T> otherwise, const char* wanted) {
  node_->asked.emplace(key);
  const toml::node* found = node_->find(key);
  if (!found) return otherwise;
  const toml::array* array = found->as_array();
  if (!array) node_->error(key, show(*found), expected(wanted, *found));
  std::vector<T> out;
  for (const toml::node& element : *array) {
    const bool right = std::is_same_v<T, double> ? element.is_number() : element.is_value() && element.is<T>();
    if (!right) node_->error(key, show(*found), fmt::format("expected {}, found {} in it", wanted, type_name(element)));
    if constexpr (std::is_same_v<T, double>)
      out.push_back(as_double(element));
    else
      out.push_back(*element.value<T>());
  }
  return out;
}

std::vector<std::int64_t> ConfigTable::integers_or(std::string_view key, std::vector<std::int64_t> otherwise,
                                                   std::int64_t at_least, std::int64_t at_most) {
  const auto out = list_or(key, std::move(otherwise), "an array of integers");
  if (has(key))
    for (const std::int64_t value : out)
      if (value < at_least || value > at_most)
        fail(key, fmt::format("holds {}: each {}", value,
                              range<std::int64_t>(value, at_least, at_most, INT64_MIN, INT64_MAX)));
  return out;
}
std::vector<double> ConfigTable::numbers_or(std::string_view key, std::vector<double> otherwise, double at_least,
                                            double at_most) {
  const auto out = list_or(key, std::move(otherwise), "an array of numbers");
  if (has(key))
    for (const double value : out) check_number(key, value, at_least, at_most);
  return out;
}
std::vector<std::string> ConfigTable::strings_or(std::string_view key, std::vector<std::string> otherwise) {
  return list_or(key, std::move(otherwise), "an array of strings");
}

ConfigTable ConfigTable::table(std::string_view key) {
  node_->asked.emplace(key);
  auto& child = node_->children[std::string(key)];
  if (!child) {
    const toml::node* found = node_->find(key);
    if (found && !found->is_table()) node_->error(key, show(*found), expected("a table", *found));
    child = std::make_shared<Node>();
    child->document = node_->document;
    child->table = found ? found->as_table() : nullptr;
    child->prefix = dotted(key) + ".";
  }
  return ConfigTable(child);
}

std::vector<ConfigTable> ConfigTable::tables(std::string_view key) {
  node_->asked.emplace(key);
  const toml::node* found = node_->find(key);
  auto& list = node_->lists[std::string(key)];
  if (found && list.empty()) {
    const toml::array* array = found->as_array();
    if (!array) node_->error(key, show(*found), expected("an array of tables", *found));
    for (const toml::node& element : *array) {
      if (!element.is_table()) node_->error(key, show(*found), expected("an array of tables", element));
      auto child = std::make_shared<Node>();
      child->document = node_->document;
      child->table = element.as_table();
      child->prefix = fmt::format("{}[{}].", dotted(key), list.size());
      list.push_back(std::move(child));
    }
  }
  std::vector<ConfigTable> out;
  for (const auto& child : list) out.push_back(ConfigTable(child));
  return out;
}

void ConfigTable::finish() const {
  if (node_->table)
    for (const auto& [name, value] : *node_->table) {
      const std::string key(name.str());
      if (node_->asked.contains(key)) continue;
      std::vector<std::string> known;
      const auto top = node_->document->top.lock();
      (top ? top.get() : node_.get())->known_keys(known);
      // The table that the key stands in is no suggestion.
      std::erase_if(known, [&](const std::string& k) { return dotted(key).starts_with(k + "."); });
      std::string nearest = key_by_alias(dotted(key), known);
      if (nearest.empty()) nearest = nearest_key(dotted(key), known);
      node_->error(key, show(value),
                   nearest.empty() ? "unknown key" : fmt::format("unknown key; did you mean {}?", nearest));
    }
  for (const auto& [key, child] : node_->children) ConfigTable(child).finish();
  for (const auto& [key, list] : node_->lists)
    for (const auto& child : list) ConfigTable(child).finish();
}

}  // namespace trireme
