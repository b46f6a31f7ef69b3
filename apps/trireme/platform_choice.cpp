#include "trireme/platform_choice.h"

#include "base/log.h"
#include "platform/platform_file.h"

namespace trireme::apps {

platform::PlatformSpec choose_platform(const std::filesystem::path& given, const plan::RunSpec& run) {
  if (!given.empty()) return platform::load_platform(given);
  if (!run.platform.empty() && std::filesystem::exists(run.platform)) return platform::load_platform(run.platform);
  if (run.platform.empty())
    spdlog::warn("no platform file: prices are a guess for a laptop. `trireme probe` measures this machine.");
  else
    spdlog::warn("{} does not exist yet: prices are a guess for a laptop. `trireme probe --out {}` measures this machine.",
                 run.platform.string(), run.platform.string());
  return platform::default_platform();
}

}  // namespace trireme::apps
