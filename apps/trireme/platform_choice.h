// Which platform a command prices on.
#pragma once
#include <filesystem>

#include "plan/run_spec.h"
#include "platform/platform_spec.h"

namespace trireme::apps {

// `given` (an option of the command) where not empty, else what the run names, else the built-in guess. A run names a file
// that `trireme probe` may not have written yet: then the guess, too. The guess is said in the log.
platform::PlatformSpec choose_platform(const std::filesystem::path& given, const plan::RunSpec& run);

}  // namespace trireme::apps
