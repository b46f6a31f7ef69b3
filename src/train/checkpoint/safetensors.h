// The safetensors format (huggingface/safetensors, "Format"): eight bytes of header length (little-endian), a JSON
// header
// {"name": {"dtype", "shape", "data_offsets": [begin, end)}, "__metadata__": {string: string}}, then the data, offsets
// counted from its start. Types read and written: F32, F64, BF16, F16, I64.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/atomic_file.h"
#include "train/checkpoint/named_tensor.h"

namespace trireme::train {

struct TensorEntry {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes in the data

  std::uint64_t bytes() const;  // of dtype and shape
};

const char* safetensors_dtype(at::ScalarType dtype);  // "F32"; a bug for a type that isn't in the list above

// A file, mapped into memory: pages are read when a tensor is. ConfigError with the file and what is wrong for anything
// malformed: a header that isn't JSON or longer than the file, an unknown type, offsets that don't fit the shape, the
// data or one another (holes and overlaps included), a file that ends early or late.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::map<std::string, TensorEntry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // A view of the mapping, which stays alive with the tensor. To be read: a write would stay in this process.
  // ConfigError with file and name where there is no such tensor.
  at::Tensor tensor(const std::string& name) const;

 private:
  struct Mapping;
  void read_header(const std::string& header, std::uint64_t data_bytes);

  std::filesystem::path path_;
  std::shared_ptr<Mapping> mapping_;
  std::map<std::string, TensorEntry> entries_;
  std::map<std::string, std::string> metadata_;
};

// Writes beside the name and renames at commit (base/atomic_file.h, whose std::system_error it lets through). The
// header is known beforehand; tensors then follow in any order, one at a time, so that a file may be larger than
// memory.
class SafetensorsWriter {
 public:
  // Data offsets are given here: by element size, largest first (every tensor stays aligned), then in the order given.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorEntry> entries,
                    const std::map<std::string, std::string>& metadata = {});

  void write(const std::string& name, const at::Tensor& tensor);  // of the entry's dtype and shape, each once
  void commit();                                                  // all written, or it is a bug

 private:
  AtomicFile file_;
  std::uint64_t data_start_ = 0;
  std::map<std::string, TensorEntry> entries_;
  std::map<std::string, bool> written_;
};

void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace trireme::train
