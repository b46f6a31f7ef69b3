#include "train/data/documents.h"

#include <algorithm>
#include <fstream>
#include <regex>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/errors.h"

namespace trireme::train {
namespace {

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\f\v") == std::string_view::npos;
}

// Collects lines to documents by the rule.
class Splitter {
 public:
  Splitter(const std::filesystem::path& file, const DocumentOptions& options,
           const std::function<void(std::string_view)>& take)
      : file_(file), options_(options), take_(take) {
    if (options.rule != DocumentRule::separator) return;
    try {
      separator_ = std::regex(options.separator, std::regex::ECMAScript | std::regex::optimize);
    } catch (const std::regex_error& e) {
      throw ConfigError({.key = "--separator",
                         .value = options.separator,
                         .allowed = fmt::format("not a regular expression: {}", e.what())});
    }
  }

  void add_line(std::string_view line) {  // without its line end
    ++line_number_;
    switch (options_.rule) {
      case DocumentRule::line:
        return emit(line);
      case DocumentRule::jsonl:
        return emit_json(line);
      case DocumentRule::blank_line:
        if (is_blank(line)) return finish();
        break;
      case DocumentRule::separator: {
        // std::regex recurses once a character: a very long line would overflow the stack.
        const std::string_view head = line.substr(0, 1024);
        if (std::regex_search(head.begin(), head.end(), separator_)) {
          finish();
          if (options_.drop_separator) return;
        }
        break;
      }
      case DocumentRule::file:
        break;
    }
    document_.append(line);
    document_.push_back('\n');
  }

  void finish() {
    while (!document_.empty() && (document_.back() == '\n' || document_.back() == '\r')) document_.pop_back();
    emit(document_);
    document_.clear();
  }

 private:
  void emit(std::string_view document) {
    if (!is_blank(document)) take_(document);
  }

  void emit_json(std::string_view line) {
    if (is_blank(line)) return;
    const auto fail = [&](std::string why) {
      throw ConfigError({.file = fmt::format("{}:{}", file_.string(), line_number_), .allowed = std::move(why)});
    };
    const auto object = nlohmann::json::parse(line, nullptr, false);
    if (!object.is_object()) fail("expected a JSON object on each line");
    const auto field = object.find(options_.json_key);
    if (field == object.end() || !field->is_string()) fail(fmt::format("has no string \"{}\"", options_.json_key));
    emit(field->get_ref<const std::string&>());
  }

  const std::filesystem::path& file_;
  const DocumentOptions& options_;
  const std::function<void(std::string_view)>& take_;
  std::regex separator_;
  std::string document_;
  std::int64_t line_number_ = 0;
};

}  // namespace

DocumentRule document_rule_from_name(const std::string& name) {
  const std::pair<const char*, DocumentRule> rules[] = {{"blank_line", DocumentRule::blank_line},
                                                        {"line", DocumentRule::line},
                                                        {"file", DocumentRule::file},
                                                        {"separator", DocumentRule::separator},
                                                        {"jsonl", DocumentRule::jsonl}};
  for (const auto& [known, rule] : rules)
    if (name == known) return rule;
  throw ConfigError(
      {.key = "--documents", .value = name, .allowed = "must be one of blank_line, line, file, separator, jsonl"});
}

void for_each_document(const std::filesystem::path& file, const DocumentOptions& options,
                       const std::function<void(std::string_view)>& take,
                       const std::function<void(std::int64_t)>& progress) {
  std::ifstream in(file, std::ios::binary);
  if (!in || std::filesystem::is_directory(file))
    throw ConfigError({.file = file.string(), .allowed = "no such file, or it cannot be read"});
  Splitter splitter(file, options, take);
  std::vector<char> block(std::size_t{1} << 20);
  std::string partial;  // a line that goes on in the next block
  std::int64_t read = 0;
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())), in.gcount() > 0) {
    const auto n = static_cast<std::size_t>(in.gcount());
    std::string_view rest(block.data(), n);
    for (std::size_t end; (end = rest.find('\n')) != std::string_view::npos; rest.remove_prefix(end + 1)) {
      if (partial.empty()) {
        splitter.add_line(rest.substr(0, end));
      } else {
        partial.append(rest.substr(0, end));
        splitter.add_line(partial);
        partial.clear();
      }
    }
    partial.append(rest);
    read += static_cast<std::int64_t>(n);
    if (progress) progress(read);
  }
  if (!partial.empty()) splitter.add_line(partial);
  splitter.finish();
}

}  // namespace trireme::train
