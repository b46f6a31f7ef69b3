#include "train/data/documents.h"

#include <algorithm>
#include <memory>

#include <re2/re2.h>

#include "base/errors.h"
#include "base/utf8.h"
#include "train/data/text_stream.h"

namespace trireme::train {
namespace {

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\f\v") == std::string_view::npos;
}

std::string_view without_return(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// What is wrong with the byte at `at`, which no UTF-8 character holds.
std::string not_utf8(std::string_view line, std::size_t at) {
  const auto byte = [&](std::size_t i) { return i < line.size() ? static_cast<unsigned char>(line[i]) : 0; };
  if (byte(at) == 0xED && byte(at + 1) >= 0xA0) {
    const unsigned unit = 0xD000u | (byte(at + 1) & 0x3Fu) << 6 | (byte(at + 2) & 0x3Fu);
    return fmt::format("is half of a surrogate pair (U+{:04X}), which is no character", unit);
  }
  return fmt::format(
      "(0x{:02X}) is not UTF-8. If the text is Latin-1, `iconv -f LATIN1 -t UTF-8 FILE > FILE.txt` turns it", byte(at));
}

// Collects lines to documents by the rule.
class Splitter {
 public:
  Splitter(const std::filesystem::path& file, const DocumentOptions& options, DocumentRule rule, bool is_unpacked,
           std::size_t mark_bytes, const std::function<void(const Document&)>& take, SkippedDocuments& skipped)
      : file_(file),
        options_(options),
        rule_(rule),
        is_unpacked_(is_unpacked),
        take_(take),
        skipped_(skipped),
        byte_(is_unpacked ? 0 : mark_bytes) {
    if (rule != DocumentRule::separator) return;
    separator_ = std::make_unique<re2::RE2>(options.separator, re2::RE2::Quiet);
    if (!separator_->ok())
      throw ConfigError({.key = "--separator",
                         .value = options.separator,
                         .allowed = fmt::format("not a regular expression: {}", separator_->error())});
  }

  // A line without its end. `bytes`: of the text, with the line's end and with what was left out of a line too long.
  void add_line(std::string_view line, std::size_t bytes, bool too_long) {
    ++line_number_;
    const std::size_t begin = byte_;
    byte_ += bytes;
    if (!seen_text_ && !is_blank(line)) {
      seen_text_ = true;
      if (!options_.rule && rule_ != DocumentRule::jsonl) refuse_json(line);
    }
    switch (rule_) {
      case DocumentRule::line:
      case DocumentRule::jsonl:
        if (check_line(line, begin, too_long)) emit_line(without_return(line));
        bad_ = false;
        return;
      case DocumentRule::blank_line:
        if (!too_long && is_blank(line)) return finish();
        break;
      case DocumentRule::separator: {
        const std::string_view text = without_return(line);
        if (re2::RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), *separator_)) {
          finish();
          if (options_.drop_separator) return;
        }
        break;
      }
      case DocumentRule::file:
        break;
    }
    if (!check_line(line, begin, too_long || document_.size() + line.size() > options_.longest_bytes)) return;
    document_.append(line);
    document_.push_back('\n');
  }

  void finish() {
    while (!document_.empty() && (document_.back() == '\n' || document_.back() == '\r')) document_.pop_back();
    if (!bad_ && !is_blank(document_)) take_({document_, {}});
    document_.clear();
    bad_ = false;
  }

 private:
  void emit_line(std::string_view line) {
    if (is_blank(line)) return;
    if (rule_ == DocumentRule::line) return take_({line, {}});
    try {
      const JsonDocument document = read_json_document(line, options_.json);
      if (!is_blank(document.text)) take_({document.text, document.weights});
    } catch (const BadDocument& e) {
      const bool by_name = !options_.rule && line_number_ == 1;
      bad(fmt::format("{}{}", e.what(), by_name ? " (its name says JSON lines; --documents can say otherwise)" : ""));
    }
  }

  // JSON lines under a name that does not say so would be learned as they are, with keys and quotes.
  void refuse_json(std::string_view first_line) const {
    const std::size_t begin = first_line.find_first_not_of(" \t\r"), end = first_line.find_last_not_of(" \t\r");
    if (first_line[begin] != '{' || first_line[end] != '}') return;
    try {
      read_json_document(first_line.substr(begin, end + 1 - begin), {});
    } catch (const BadDocument& e) {
      if (std::string_view(e.what()).starts_with("is not JSON")) return;
    }
    throw ConfigError({.file = fmt::format("{}:{}", file_.string(), line_number_),
                       .allowed =
                           "is a JSON object: --documents jsonl takes the text out of it, --documents blank_line takes "
                           "the file as it is"});
  }

  // Whether the document that the line belongs to is good so far; only its first fault is told.
  bool check_line(std::string_view line, std::size_t begin, bool too_long) {
    if (bad_) return false;
    if (too_long) {
      bad(fmt::format("the document is longer than {} bytes: cut it (--documents says how a text is cut)",
                      options_.longest_bytes));
      return false;
    }
    std::size_t at = line.find('\0');
    const std::size_t no_character = first_not_utf8(line.substr(0, at));
    if (at == std::string_view::npos && no_character == line.size()) return true;
    std::string why = "is 0: this is no text";
    if (no_character < std::min(at, line.size())) {
      at = no_character;
      why = not_utf8(line, at);
    }
    bad(fmt::format("byte {}{} {}", begin + at, is_unpacked_ ? " of the unpacked text" : "", why));
    return false;
  }

  void bad(const std::string& why) {
    ConfigError error({.file = fmt::format("{}:{}", file_.string(), line_number_), .allowed = why});
    if (!options_.skip_bad) throw error;
    skipped_.add(error.what());
    bad_ = true;
    document_.clear();
  }

  const std::filesystem::path& file_;
  const DocumentOptions& options_;
  DocumentRule rule_;
  bool is_unpacked_;
  const std::function<void(const Document&)>& take_;
  SkippedDocuments& skipped_;
  std::unique_ptr<re2::RE2> separator_;  // takes time in proportion to the text, whatever the expression
  std::string document_;
  bool seen_text_ = false;
  bool bad_ = false;  // the document that is being collected
  std::int64_t line_number_ = 0;
  std::size_t byte_;  // where the next line begins in the text
};

// Cuts blocks into lines.
void split_lines(TextStream& text, Splitter& splitter, std::size_t longest_bytes,
                 const std::function<void(std::int64_t)>& progress) {
  std::string partial;            // a line that goes on in the next block
  std::size_t partial_bytes = 0;  // of it, with what is not kept
  const auto add = [&](std::string_view more) {
    partial_bytes += more.size();
    partial.append(more.substr(0, longest_bytes + 1 - std::min(partial.size(), longest_bytes + 1)));
  };
  const auto end_line = [&](std::size_t end_bytes) {
    splitter.add_line(partial, partial_bytes + end_bytes, partial_bytes > longest_bytes);
    partial.clear();
    partial_bytes = 0;
  };
  std::int64_t told = 0;
  for (std::string_view rest; !(rest = text.next_block()).empty();) {
    for (std::size_t end; (end = rest.find('\n')) != std::string_view::npos; rest.remove_prefix(end + 1)) {
      if (partial_bytes == 0) {
        splitter.add_line(rest.substr(0, end), end + 1, end > longest_bytes);
      } else {
        add(rest.substr(0, end));
        end_line(1);
      }
    }
    add(rest);
    if (progress && text.bytes_read() != told) progress(told = text.bytes_read());
  }
  if (partial_bytes > 0) end_line(0);
}

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

void SkippedDocuments::add(std::string why) {
  ++count;
  if (first.size() < 3) first.push_back(std::move(why));
}

void for_each_document(const std::filesystem::path& file, const DocumentOptions& options,
                       const std::function<void(const Document&)>& take,
                       const std::function<void(std::int64_t)>& progress, SkippedDocuments* skipped) {
  SkippedDocuments not_asked_for;
  SkippedDocuments& left_out = skipped ? *skipped : not_asked_for;
  const DocumentRule rule =
      options.rule.value_or(is_named_json_lines(file) ? DocumentRule::jsonl : DocumentRule::blank_line);
  if (options.json.give_weights() && rule != DocumentRule::jsonl)
    throw ConfigError({.file = file.string(),
                       .allowed =
                           "is not read as JSON lines, and weights come from their fields: --documents jsonl reads "
                           "it so, whatever its name"});
  try {
    TextStream text(file);
    Splitter splitter(file, options, rule, text.is_unpacked(), text.mark_bytes(), take, left_out);
    split_lines(text, splitter, options.longest_bytes, progress);
    splitter.finish();
  } catch (const NotText& e) {
    if (!options.skip_bad) throw;
    left_out.add(e.what());
  }
}

}  // namespace trireme::train
