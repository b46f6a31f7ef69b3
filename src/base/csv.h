// Comma-separated values with a header line (RFC 4180): quoted fields may hold commas, line ends and doubled quotes.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct CsvTable {
  std::string file;                             // for errors
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;   // each as long as the header
  std::vector<int> lines;                       // of the file, where each row starts; the header is line 1

  bool has(std::string_view column) const;
  // The field of a row; "" where the table has no such column.
  const std::string& at(std::size_t row, std::string_view column) const;

 private:
  friend CsvTable parse_csv(std::string_view text, std::string file);
  std::map<std::string, std::size_t, std::less<>> index_;
};

// ConfigError with file and line: no header, a column named twice, a row of another length, a quote that is not closed.
CsvTable parse_csv(std::string_view text, std::string file);
CsvTable read_csv(const std::filesystem::path& path);  // also where the file can't be read

}  // namespace trireme
