// Files that are read by their name. Of a pipe a reader would wait for a writer that may never come, and a device may
// never end, so what is not a regular file is refused before it is opened.
#pragma once
#include <filesystem>
#include <fstream>
#include <string>

namespace trireme {

// Whether a path names what the process or its parent has opened already: /dev/stdin, /dev/fd/63, /proc/self/fd/0.
// Whoever gives such a name means the pipe behind it.
bool names_open_file(const std::filesystem::path& path);

// "is a folder: expected a file", and the same of a pipe, a socket or a device. Empty for a regular file (or a link to
// one), and where there is nothing.
std::string why_not_regular(const std::filesystem::path& path);

// ConfigError with the path and why_not_regular().
void check_regular(const std::filesystem::path& path);

// A stream of the file's bytes after check_regular(); it is bad where the file does not exist or cannot be read.
std::ifstream open_regular(const std::filesystem::path& path);

// The same as a descriptor for reading, -1 with errno.
int open_regular_descriptor(const std::filesystem::path& path);

}  // namespace trireme
