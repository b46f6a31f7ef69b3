// A whole file as text, for everything that a user names: files, and pipes such as /dev/stdin.
#pragma once
#include <filesystem>
#include <string>

namespace trireme {

inline constexpr std::size_t most_file_bytes = std::size_t{1} << 27;  // a device such as /dev/zero never ends

// ConfigError, with the path, where it is absent, a folder, a pipe with a name of its own (base/regular_file.h),
// unreadable or longer than most_file_bytes.
std::string read_file(const std::filesystem::path& path);

}  // namespace trireme
