// Columns of text, aligned: the first left, the others right (the last left where asked). Readable at 80 to 120 columns.
#pragma once
#include <string>
#include <vector>

namespace trireme::report {

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> heading, bool last_left = false)
      : rows_{std::move(heading)}, last_left_(last_left) {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.size() == 1; }
  std::string text(int indent = 2) const;  // heading, a rule, the rows

 private:
  std::vector<std::vector<std::string>> rows_;
  bool last_left_;
};

std::string show_seconds(double s);  // "12.3 ms", "850 us", "1.25 s"
std::string show_bytes(double b);    // "1.5 MiB"
std::string show_count(double n);    // "31.2 M"
std::string show_error(double predicted, double measured);  // "+12.3 %" of measured; "-" where nothing was measured

}  // namespace trireme::report
