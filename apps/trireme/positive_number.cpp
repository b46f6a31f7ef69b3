#include "trireme/positive_number.h"

#include <string>

#include <fmt/format.h>

#include "base/config_table.h"

namespace trireme::apps {

CLI::Validator positive_number() {
  const auto check = [](std::string& text) -> std::string {
    double value = 0;
    const bool read = CLI::detail::lexical_cast(text, value);
    if (read && value > 0 && value <= largest_number) return {};
    return fmt::format("{} is not a positive number of at most {}", text, largest_number);
  };
  return CLI::Validator(check, "POSITIVE");
}

}  // namespace trireme::apps
