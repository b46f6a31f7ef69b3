// The checks of options that are numbers: all of the text is read, and what does not fit is refused with what is allowed.
// CLI11 alone takes an empty text for 0, and the largest number for one that is larger.
#pragma once
#include <cstdint>

#include <CLI/CLI.hpp>

namespace trireme::apps {

// A number above 0 and within ConfigTable's largest_number: neither infinite nor not-a-number.
CLI::Validator positive_number();
CLI::Validator number_between(double least, double most);
// In decimal digits.
CLI::Validator whole_number(std::int64_t least, std::uint64_t most);

inline constexpr std::uint64_t largest_step = INT64_MAX;   // of --step
inline constexpr std::uint64_t most_ranks_asked = 1 << 24;  // of --ranks: what a launcher may say, too
inline constexpr std::uint64_t most_threads = 1024;         // of a process, as of device.threads

}  // namespace trireme::apps
