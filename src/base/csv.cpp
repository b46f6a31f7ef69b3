#include "base/csv.h"

#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "base/errors.h"

namespace trireme {

bool CsvTable::has(std::string_view column) const { return index_.find(column) != index_.end(); }

const std::string& CsvTable::at(std::size_t row, std::string_view column) const {
  static const std::string none;
  const auto found = index_.find(column);
  return found == index_.end() ? none : rows[row][found->second];
}

CsvTable parse_csv(std::string_view text, std::string file) {
  CsvTable table;
  table.file = std::move(file);
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::vector<std::string> fields;
  std::string field;
  bool quoted = false, was_quoted = false;
  int line = 1, row_line = 1;
  const auto fail = [&](int at, std::string what) {
    throw ConfigError({.file = fmt::format("{}:{}", table.file, at), .allowed = std::move(what)});
  };
  const auto end_row = [&] {
    fields.push_back(std::move(field));
    field.clear();
    const bool blank = fields.size() == 1 && fields[0].empty() && !was_quoted;
    if (!blank) {
      if (table.header.empty()) {
        table.header = fields;
        for (std::size_t i = 0; i < fields.size(); ++i)
          if (!table.index_.emplace(fields[i], i).second) fail(row_line, fmt::format("column \"{}\" is there twice", fields[i]));
      } else if (fields.size() != table.header.size()) {
        fail(row_line, fmt::format("{} fields; the header has {}", fields.size(), table.header.size()));
      } else {
        table.rows.push_back(fields);
        table.lines.push_back(row_line);
      }
    }
    fields.clear();
    was_quoted = false;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (quoted) {
      if (c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
        field += '"';
        ++i;
      } else if (c == '"') {
        quoted = false;
      } else {
        field += c;
      }
    } else if (c == '"' && field.empty()) {
      quoted = was_quoted = true;
    } else if (c == ',') {
      fields.push_back(std::move(field));
      field.clear();
    } else if (c == '\n') {
      if (!field.empty() && field.back() == '\r') field.pop_back();
      end_row();
      row_line = line;
    } else {
      field += c;
    }
  }
  if (quoted) fail(row_line, "a quote that is not closed");
  if (!field.empty() || !fields.empty()) {
    if (!field.empty() && field.back() == '\r') field.pop_back();
    end_row();
  }
  if (table.header.empty()) fail(1, "a header line");
  return table;
}

CsvTable read_csv(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in || std::filesystem::is_directory(path))
    throw ConfigError({.file = path.string(), .allowed = "no such file, or it cannot be read"});
  std::ostringstream text;
  text << in.rdbuf();
  return parse_csv(text.str(), path.string());
}

}  // namespace trireme
