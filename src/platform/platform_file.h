// Platform files: TOML with the units in the keys (GFLOPps = 1e9 operations/s, GBps = 1e9 bytes/s, us, GiB), strict, or
// JSON with the members of PlatformSpec in SI units (a path that ends in .json), as strict.
#pragma once
#include <filesystem>
#include <string>

#include "platform/platform_spec.h"

namespace trireme::platform {

// ConfigError naming file and key: an unknown key, columns of different lengths, a value that is not positive, no curve
// at all for a kind of operator.
PlatformSpec load_platform(const std::filesystem::path& path);
PlatformSpec parse_platform(const std::string& toml, const std::string& file_name);
PlatformSpec parse_platform_json(const std::string& json, const std::string& file_name);

std::string to_toml(const PlatformSpec& spec);

// Written beside and renamed; TOML or JSON by the name's ending.
void save_platform(const PlatformSpec& spec, const std::filesystem::path& path);

// A laptop of two cores, all of it guessed: used, and said so, where no file is given. The same values as
// configs/platforms/laptop.toml.
PlatformSpec default_platform();

}  // namespace trireme::platform
