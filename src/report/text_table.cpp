#include "report/text_table.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/units.h"

namespace trireme::report {

std::string TextTable::text(int indent) const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_)
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (c == widths.size()) widths.push_back(0);
      widths[c] = std::max(widths[c], row[c].size());
    }
  std::string out;
  const std::string margin(indent, ' ');
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    std::string line = margin;
    for (std::size_t c = 0; c < rows_[r].size(); ++c)
      if (c == 0)
        line += fmt::format("{:<{}}", rows_[r][c], widths[c]);
      else
        line += last_left_ && c + 1 == widths.size() ? "  " + rows_[r][c] : fmt::format("  {:>{}}", rows_[r][c], widths[c]);
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
    if (r == 0) {
      std::size_t total = 0;
      for (std::size_t w : widths) total += w + 2;
      out += margin + std::string(total - 2, '-') + "\n";
    }
  }
  return out;
}

std::string show_seconds(double s) {
  const double a = std::abs(s);
  if (a == 0) return "0";
  if (a < 1e-3) return fmt::format("{:.0f} us", s * 1e6);
  if (a < 1) return fmt::format("{:.{}f} ms", s * 1e3, a < 0.1 ? 2 : 1);
  return fmt::format("{:.{}f} s", s, a < 100 ? 2 : 0);
}

std::string show_bytes(double b) {
  const double a = std::abs(b);
  if (a < KiB) return fmt::format("{:.0f} B", b);
  if (a < MiB) return fmt::format("{:.1f} KiB", b / KiB);
  if (a < GiB) return fmt::format("{:.1f} MiB", b / MiB);
  return fmt::format("{:.2f} GiB", b / GiB);
}

std::string show_count(double n) {
  const double a = std::abs(n);
  if (a < 1e3) return fmt::format("{:.0f}", n);
  if (a < 1e6) return fmt::format("{:.1f} k", n / 1e3);
  if (a < 1e9) return fmt::format("{:.1f} M", n / 1e6);
  return fmt::format("{:.2f} B", n / 1e9);
}

std::string show_error(double predicted, double measured) {
  if (measured == 0) return "-";
  return fmt::format("{:+.1f} %", 100 * (predicted - measured) / measured);
}

}  // namespace trireme::report
