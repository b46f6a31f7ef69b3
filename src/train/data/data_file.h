// A file of a data set, read piece by piece wherever it is asked for. It is not mapped: a file that becomes shorter
// while a run reads it would end the process by a signal that names no file.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace trireme::train {

class DataFile {
 public:
  DataFile() = default;
  explicit DataFile(std::filesystem::path path);  // std::system_error or ConfigError naming the path
  ~DataFile();
  DataFile(DataFile&& other) noexcept;
  DataFile& operator=(DataFile&& other) noexcept;

  // As it was when it was opened.
  std::uint64_t size() const { return size_; }

  // Bytes [at, at + out.size()), which lie below size(); any threads at once. RuntimeFailure naming the file where it
  // has become shorter since, or the disk fails.
  void read(std::uint64_t at, std::span<std::byte> out) const;

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

// Values of one type that lie one after another from byte `begin` on, for a reader that goes through them mostly in
// order.
template <class T>
class DataColumn {
 public:
  DataColumn(const DataFile& file, std::uint64_t begin, std::uint64_t count)
      : file_(file), begin_(begin), count_(count) {}
  T operator[](std::uint64_t i) {
    if (i < first_ || i >= first_ + piece_.size()) fill(i);
    return piece_[i - first_];
  }

 private:
  static constexpr std::uint64_t piece_values = std::uint64_t{1} << 15;
  void fill(std::uint64_t i) {
    first_ = i;
    piece_.resize(i + piece_values < count_ ? piece_values : count_ - i);
    file_.read(begin_ + i * sizeof(T), std::as_writable_bytes(std::span(piece_)));
  }

  const DataFile& file_;
  std::uint64_t begin_, count_, first_ = 0;
  std::vector<T> piece_;
};

}  // namespace trireme::train
