#include "base/read_file.h"

#include <fstream>
#include <vector>

#include "base/errors.h"
#include "base/regular_file.h"

namespace trireme {

std::string read_file(const std::filesystem::path& path) {
  const auto fail = [&](std::string allowed) {
    throw ConfigError({.file = path.string(), .allowed = std::move(allowed)});
  };
  // A device is read as far as it goes, and a pipe only where somebody has opened it already.
  std::error_code ignored;
  if (const auto status = std::filesystem::status(path, ignored);
      !std::filesystem::is_character_file(status) && !(std::filesystem::is_fifo(status) && names_open_file(path)))
    check_regular(path);
  std::ifstream in(path, std::ios::binary);
  if (!in) fail("no such file, or it cannot be read");
  std::string text;
  std::vector<char> piece(1 << 16);
  while (in) {
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    text.append(piece.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() > most_file_bytes) fail(fmt::format("is longer than {} MiB", most_file_bytes >> 20));
  }
  if (in.bad()) fail("no such file, or it cannot be read");
  return text;
}

}  // namespace trireme
