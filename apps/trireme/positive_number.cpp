#include "trireme/positive_number.h"

#include <charconv>
#include <string>

#include <fmt/format.h>

#include "base/config_table.h"

namespace trireme::apps {

namespace {

template <class Number>
bool read_all(const std::string& text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::string shown(const std::string& text) { return text.empty() ? "\"\"" : text; }

}  // namespace

CLI::Validator positive_number() {
  const auto check = [](std::string& text) -> std::string {
    double value = 0;
    if (read_all(text, value) && value > 0 && value <= largest_number) return {};
    return fmt::format("{} is not a positive number of at most {}", shown(text), largest_number);
  };
  return CLI::Validator(check, "POSITIVE");
}

CLI::Validator number_between(double least, double most) {
  const auto check = [least, most](std::string& text) -> std::string {
    double value = 0;
    if (read_all(text, value) && value >= least && value <= most) return {};
    return fmt::format("{} is not a number from {} to {}", shown(text), least, most);
  };
  return CLI::Validator(check, fmt::format("{}..{}", least, most));
}

CLI::Validator whole_number(std::int64_t least, std::uint64_t most) {
  const auto check = [least, most](std::string& text) -> std::string {
    std::int64_t below = 0;
    std::uint64_t value = 0;
    if (text.starts_with('-') && read_all(text, below) && below >= least) return {};
    if (read_all(text, value) && value <= most && (least < 0 || value >= static_cast<std::uint64_t>(least))) return {};
    return fmt::format("{} is not a whole number from {} to {}", shown(text), least, most);
  };
  return CLI::Validator(check, fmt::format("{}..{}", least, most));
}

}  // namespace trireme::apps
