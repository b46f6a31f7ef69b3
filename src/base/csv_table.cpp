#include "base/csv_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/errors.h"
#include "base/read_file.h"
#include "base/utf8.h"

namespace trireme {
namespace {

// Splits text into records of fields. Empty lines are no records.
class Splitter {
 public:
  Splitter(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  bool next(std::vector<std::string>& fields, int& line) {
    while (at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '\r')) skip_line_end();
    if (at_ >= text_.size()) return false;
    line = line_;
    fields.clear();
    do fields.push_back(field());
    while (take(','));
    if (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '\r')
      fail("text behind a closing quote: quote the whole field, or double the quote");
    skip_line_end();
    return true;
  }

 private:
  bool take(char wanted) {
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  void skip_line_end() {
    take('\r');
    if (take('\n')) ++line_;
  }

  std::string field() {
    std::string out;
    if (!take('"')) {
      while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n' && text_[at_] != '\r') out += text_[at_++];
      return out;
    }
    const int start = line_;
    while (true) {
      if (at_ >= text_.size())
        throw ConfigError(
            {.file = file_, .key = fmt::format("line {}", start), .allowed = "a quote that is never closed"});
      const char c = text_[at_++];
      if (c == '"' && !take('"')) return out;
      if (c == '\n') ++line_;
      out += c;
    }
  }

  [[noreturn]] void fail(const char* what) const {
    throw ConfigError({.file = file_, .key = fmt::format("line {}", line_), .allowed = what});
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

CsvTable CsvTable::from_file(const std::filesystem::path& path) {
  return from_text(read_file(path), path.string());
}

CsvTable CsvTable::from_text(std::string_view text, std::string file_name) {
  CsvTable table;
  table.file_ = std::move(file_name);
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // a byte order mark
  if (const std::size_t at = first_not_utf8(text); at < text.size())
    throw ConfigError({.file = table.file_,
                       .key = fmt::format("line {}", 1 + std::ranges::count(text.substr(0, at), '\n')),
                       .allowed = "not UTF-8: save the table in that encoding"});
  Splitter splitter(text, table.file_);
  int line = 0;
  if (!splitter.next(table.columns_, line))
    throw ConfigError({.file = table.file_, .allowed = "is empty: expected a line of column names"});
  for (const std::string& name : table.columns_)
    if (!name.empty() && std::ranges::count(table.columns_, name) > 1)
      throw ConfigError({.file = table.file_, .key = name, .allowed = "two columns have this name"});
  std::vector<std::string> fields;
  while (splitter.next(fields, line)) {
    if (fields.size() != table.columns_.size())
      throw ConfigError({.file = table.file_,
                         .key = fmt::format("line {}", line),
                         .value = fmt::format("{} fields", fields.size()),
                         .allowed = fmt::format("expected {}, as the first line has", table.columns_.size())});
    table.rows_.push_back(fields);
    table.lines_.push_back(line);
  }
  return table;
}

bool CsvTable::has_column(std::string_view name) const {
  return std::ranges::find(columns_, name) != columns_.end();
}

void CsvTable::require_columns(const std::vector<std::string>& names) const {
  for (const std::string& name : names)
    if (!has_column(name)) throw ConfigError({.file = file_, .key = name, .allowed = "this column is missing"});
}

const std::string& CsvTable::text(std::size_t row, std::string_view column) const {
  static const std::string empty;
  const auto found = std::ranges::find(columns_, column);
  return found == columns_.end() ? empty : rows_.at(row)[static_cast<std::size_t>(found - columns_.begin())];
}

std::optional<double> CsvTable::number(std::size_t row, std::string_view column) const {
  const std::string& field = text(row, column);
  if (field.empty()) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || end != field.data() + field.size() || !std::isfinite(value))
    fail(row, column, "expected a number");
  return value;
}

std::optional<std::int64_t> CsvTable::integer(std::size_t row, std::string_view column) const {
  const std::optional<double> value = number(row, column);
  if (!value) return std::nullopt;
  // Spreadsheets write 8 as 8.0; beyond 2^53 a double isn't exact.
  if (*value != std::floor(*value) || std::abs(*value) > 9007199254740992.0) fail(row, column, "expected an integer");
  return static_cast<std::int64_t>(*value);
}

void CsvTable::fail(std::size_t row, std::string_view column, std::string allowed) const {
  throw ConfigError({.file = file_,
                     .key = fmt::format("line {}, column {}", line(row), column),
                     .value = text(row, column),
                     .allowed = std::move(allowed)});
}

}  // namespace trireme
