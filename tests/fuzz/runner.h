// Reads inputs and tells what a reader did wrong.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "fuzz/format.h"

namespace trireme::fuzz {

struct Fault {
  std::string input;
  std::string what;  // "std::out_of_range: ..."
};

// Nothing where the input is read, or refused with ConfigError, RuntimeFailure or the file system's error for a bad path.
std::optional<Fault> fault_of(const Format& format, const std::string& input);

struct Tally {
  std::int64_t inputs = 0, refused = 0, faults = 0;
};

// Every seed as it is, then `count` mutated ones; `found` is called for each fault.
Tally run(const Format& format, std::uint64_t seed, std::int64_t count, const std::function<void(const Fault&)>& found);

}  // namespace trireme::fuzz
