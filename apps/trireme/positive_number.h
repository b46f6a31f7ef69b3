// The check of options that count or measure something.
#pragma once
#include <CLI/CLI.hpp>

namespace trireme::apps {

// A number above 0 and within ConfigTable's largest_number: neither infinite nor not-a-number, as CLI::PositiveNumber
// may be, and with a message that doesn't spell out the largest double.
CLI::Validator positive_number();

}  // namespace trireme::apps
