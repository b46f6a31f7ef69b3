// A CSV file with a header line, as spreadsheets write it (RFC 4180): quoted fields may hold commas, doubled quotes and
// line breaks. Errors are ConfigError with the file, "line N, column C" and the value found.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

class CsvTable {
 public:
  static CsvTable from_file(const std::filesystem::path& path);
  static CsvTable from_text(std::string_view text, std::string file_name);

  const std::string& file() const { return file_; }
  const std::vector<std::string>& columns() const { return columns_; }
  bool has_column(std::string_view name) const;
  std::size_t num_rows() const { return rows_.size(); }
  int line(std::size_t row) const { return lines_.at(row); }  // of the file, from 1: where the row begins

  // A column that the file hasn't got reads as empty; require_columns() makes that an error beforehand.
  void require_columns(const std::vector<std::string>& names) const;
  const std::string& text(std::size_t row, std::string_view column) const;
  // Absent where the field is empty.
  std::optional<double> number(std::size_t row, std::string_view column) const;
  std::optional<std::int64_t> integer(std::size_t row, std::string_view column) const;

  [[noreturn]] void fail(std::size_t row, std::string_view column, std::string allowed) const;

 private:
  std::string file_;
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<int> lines_;
};

}  // namespace trireme
