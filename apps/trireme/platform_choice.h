// Which platform a command prices on, and what software on it.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "plan/run_spec.h"
#include "platform/platform_spec.h"
#include "platform/stack_profile.h"
#include "sim/rates/make_rates.h"
#include "trireme/context.h"

namespace trireme::apps {

// Whether an option's text is a path; else it is a name.
bool names_a_file(const std::string& text);

// A file, or a name of configs/platforms. ConfigError with the nearest name where there is none.
std::filesystem::path platform_file(const std::string& given, const Context& context);

struct ChosenStack {
  platform::StackProfile profile;
  std::string entry;
};
// "uncalibrated", a profile (name or file), one of its entries ("published:torchtitan_compile"), or an entry of the
// published profile; empty: the published profile's default. ConfigError likewise.
ChosenStack find_stack(const std::string& given, const Context& context);

// `given` (an option of the command) where not empty, else what the run names, else the built-in guess. A run names a file
// that `trireme probe` may not have written yet: then the guess, too, with the memory that this host has. The guess is said
// in the log unless `silent`.
platform::PlatformSpec choose_platform(const std::filesystem::path& given, const plan::RunSpec& run, bool silent = false);

struct ChosenPlatform {
  platform::PlatformSpec spec;
  sim::Software software;                // of a data sheet's machine
  std::vector<std::string> assumptions;  // what nobody gave, one line each
};
// The same with names for files, and a stack as `trireme plan --model` chooses it.
ChosenPlatform choose_platform(const std::string& given, const std::string& stack, const plan::RunSpec& run,
                               const Context& context);

}  // namespace trireme::apps
