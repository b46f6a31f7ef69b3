// Files that are written beside their name and renamed when complete: a reader never sees half of one, and a full disk
// leaves the old one as it was (ConfigError-free: throws std::system_error with the path in its text). A link stays one
// and its file is replaced; devices and pipes (/dev/null, /dev/stdout) can't be, and are written straight.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace trireme {

class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);  // opens path.tmp.<pid>.<n>
  ~AtomicFile();                                    // not committed: the temporary is removed
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  void sync();    // all of it on the disk, not yet under its name: afterwards no full disk can stop commit()
  void commit();  // sync, rename, fsync of the folder

 private:
  std::filesystem::path path_, temporary_;  // the same where it is written straight
  int fd_ = -1;
};

void write_file_atomically(const std::filesystem::path& path, std::string_view text);

// Throws as writing the file would for a bad path: to be called before long work whose result goes there.
void check_writable(const std::filesystem::path& path);

}  // namespace trireme
