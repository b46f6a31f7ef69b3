// Files that get their name when complete: a reader never sees half of one, and a full disk leaves the old one as it was. While
// they are written they have none where the file system knows such files, so that a process that is killed leaves nothing;
// elsewhere they lie beside their name (ConfigError-free: throws std::system_error with the path in its text). A link stays one
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
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();  // not committed: what was written is gone
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  void sync();    // all of it on the disk, beside its name: afterwards no full disk can stop commit()
  void commit();  // sync, name, fsync of the folder

 private:
  std::filesystem::path path_, temporary_;  // path.tmp.<pid>.<n>; the same where it is written straight
  int fd_ = -1;
  bool is_nameless_ = false;
};

void write_file_atomically(const std::filesystem::path& path, std::string_view text);

// Throws as writing the file would for a bad path: to be called before long work whose result goes there.
void check_writable(const std::filesystem::path& path);

}  // namespace trireme
