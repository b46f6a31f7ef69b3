#include "trireme/platform_choice.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/edit_distance.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/printable.h"
#include "platform/host_memory.h"
#include "platform/platform_file.h"
#include "trireme/config_folder.h"

namespace trireme::apps {

namespace fs = std::filesystem;

namespace {

constexpr const char* default_stack = "megatron_core_2025";

[[noreturn]] void no_such(const char* option, const std::string& name, const std::vector<std::string>& known) {
  const std::string near = nearest_key(name, known);
  throw ConfigError({.key = option,
                     .value = name,
                     .allowed = near.empty() ? fmt::format("a file, or one of {}", fmt::join(known, ", "))
                                             : fmt::format("no such name; did you mean {}?", near)});
}

// Speeds are a laptop's; memory need not be guessed.
platform::PlatformSpec guess_of_this_host() {
  platform::PlatformSpec out = platform::default_platform();
  if (const double bytes = platform::measure_host_memory().total_bytes; bytes > 0)
    out.host.memory_bytes = out.device.memory_bytes = bytes;
  return out;
}

}  // namespace

fs::path platform_file(const std::string& given, const Context& context) {
  if (names_a_file(given) || fs::is_regular_file(given)) return given;
  const fs::path folder = config_folder(context) / "platforms";
  const fs::path file = folder / (given + ".toml");
  if (!fs::exists(file)) no_such("--platform", given, names_in(folder));
  return file;
}

ChosenStack find_stack(const std::string& given, const Context& context) {
  if (given == "uncalibrated") return {};
  const fs::path folder = config_folder(context) / "stacks";
  const auto colon = given.rfind(':');
  const std::string profile = given.substr(0, colon), entry = colon == std::string::npos ? "" : given.substr(colon + 1);
  const auto entry_names = [](const platform::StackProfile& p) {
    std::vector<std::string> out;
    for (const auto& s : p.stacks) out.push_back(s.name);
    return out;
  };
  ChosenStack out;
  const fs::path file =
      names_a_file(profile) ? fs::path(profile) : folder / ((profile.empty() ? "published" : profile) + ".toml");
  if (fs::exists(file) || names_a_file(profile)) {
    out.profile = platform::load_stack_profile(file);
    out.entry = entry;
    if (out.entry.empty()) out.entry = out.profile.stacks.size() == 1 ? out.profile.stacks[0].name : default_stack;
  } else if (profile.empty()) {
    return {};  // no profile comes with this folder of configs
  } else {
    out.profile = platform::load_stack_profile(folder / "published.toml");
    out.entry = given;
  }
  const std::vector<std::string> known = entry_names(out.profile);
  if (std::find(known.begin(), known.end(), out.entry) == known.end()) {
    if (out.entry == default_stack && entry.empty() && given != default_stack) {
      out.entry.clear();
      return out;
    }
    no_such("--stack", out.entry, known);
  }
  return out;
}

bool names_a_file(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".toml") || text.ends_with(".json");
}

platform::PlatformSpec choose_platform(const std::filesystem::path& given, const plan::RunSpec& run, bool silent) {
  if (!given.empty()) return platform::load_platform(given);
  if (!run.platform.empty() && std::filesystem::exists(run.platform)) return platform::load_platform(run.platform);
  if (silent) return guess_of_this_host();
  if (run.platform.empty())
    spdlog::warn("no platform file: prices are a guess for a laptop. `trireme probe` measures this machine.");
  else
    spdlog::warn("{} does not exist yet: prices are a guess for a laptop. `trireme probe --out {}` measures this machine.",
                 printable(run.platform.string()), printable(run.platform.string()));
  return guess_of_this_host();
}

ChosenPlatform choose_platform(const std::string& given, const std::string& stack, const plan::RunSpec& run,
                               const Context& context) {
  ChosenPlatform out{.spec = given.empty() ? choose_platform(fs::path(), run) : platform::load_platform(platform_file(given, context))};
  if (sim::has_curves(out.spec)) return out;
  const ChosenStack chosen = find_stack(stack, context);
  bool known = false;
  out.software = {.name = chosen.entry,
                  .device = chosen.profile.device(out.spec.device.name, &known),
                  .stack = chosen.profile.stack(chosen.entry)};
  if (!known)
    out.assumptions.push_back(fmt::format("guessed efficiencies: the profile \"{}\" does not know the device {}",
                                          chosen.profile.name, out.spec.device.name));
  out.assumptions.push_back(chosen.entry.empty()
                                ? std::string("software that nobody measured (--stack)")
                                : fmt::format("software that behaves like {} (--stack)", chosen.entry));
  return out;
}

}  // namespace trireme::apps
