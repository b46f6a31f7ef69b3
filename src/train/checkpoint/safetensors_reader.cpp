#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/regular_file.h"
#include "train/checkpoint/safetensors.h"
#include "train/checkpoint/safetensors_types.h"

namespace trireme::train {
namespace {

constexpr std::uint64_t length_bytes = 8;
constexpr std::uint64_t max_elements = std::uint64_t{1} << 56;  // more cannot be stored; keeps products in range

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& key, const std::string& what) {
  throw ConfigError({.file = path.string(), .key = key, .allowed = what});
}

TensorEntry parse_entry(const std::filesystem::path& path, const std::string& name, const nlohmann::json& value) {
  const auto integers = [&](const char* field) {
    if (!value.is_object() || !value.contains(field) || !value[field].is_array()) {
      fail(path, name, fmt::format("the header has no list '{}'", field));
    }
    std::vector<std::int64_t> out;
    for (const auto& item : value[field]) {
      // A number above 2^63 would be read as a negative one, and two of them multiply to a small product.
      if (!item.is_number_unsigned() || item.get<std::uint64_t>() > INT64_MAX)
        fail(path, name, fmt::format("'{}' is not a list of sizes", field));
      out.push_back(static_cast<std::int64_t>(item.get<std::uint64_t>()));
    }
    return out;
  };
  TensorEntry entry{.name = name, .shape = integers("shape")};
  const auto offsets = integers("data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1]) fail(path, name, "'data_offsets' is not [begin, end]");
  entry.begin = static_cast<std::uint64_t>(offsets[0]);
  entry.end = static_cast<std::uint64_t>(offsets[1]);
  const std::string dtype = value.contains("dtype") && value["dtype"].is_string() ? value["dtype"] : "none";
  const auto type = scalar_type(dtype);
  if (!type) fail(path, name, fmt::format("element type {}; F32, F64, BF16, F16 and I64 are read", dtype));
  entry.dtype = *type;
  std::uint64_t count = 1;  // without sizes of 0: strides are products too
  for (std::int64_t size : entry.shape) {
    if (size == 0) continue;
    if (count > max_elements / static_cast<std::uint64_t>(size)) fail(path, name, "the shape is too large");
    count *= static_cast<std::uint64_t>(size);
  }
  if (entry.end - entry.begin != entry.bytes()) {
    fail(path, name,
         fmt::format("the header gives {} bytes to {}, which has {}", entry.end - entry.begin,
                     describe(entry.dtype, entry.shape), entry.bytes()));
  }
  return entry;
}

}  // namespace

struct SafetensorsFile::Mapping {
  void* address = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t data_start = 0;
  ~Mapping() {
    if (address) ::munmap(address, bytes);
  }
};

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path), mapping_(new Mapping) {
  const int fd = open_regular_descriptor(path);
  if (fd < 0) fail(path, "", fmt::format("cannot be opened: {}", std::strerror(errno)));
  struct stat status {};
  const bool known = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  mapping_->bytes = known ? static_cast<std::uint64_t>(status.st_size) : 0;
  if (mapping_->bytes >= length_bytes) {
    // Private and writable: a stray in-place operator changes this process's copy, and neither crashes nor hits the
    // file.
    void* address = ::mmap(nullptr, mapping_->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (address != MAP_FAILED) mapping_->address = address;
  }
  ::close(fd);
  if (mapping_->bytes < length_bytes) {
    fail(path, "", fmt::format("truncated: {} bytes are too few for a safetensors file", mapping_->bytes));
  }
  if (!mapping_->address) fail(path, "", "cannot be mapped into memory");

  const char* bytes = static_cast<const char*>(mapping_->address);
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes, length_bytes);
  if (header_bytes > mapping_->bytes - length_bytes) {
    fail(path, "",
         fmt::format("not a safetensors file, or truncated: a header of {} bytes in a file of {}", header_bytes,
                     mapping_->bytes));
  }
  mapping_->data_start = length_bytes + header_bytes;
  read_header(std::string(bytes + length_bytes, header_bytes), mapping_->bytes - mapping_->data_start);
}

void SafetensorsFile::read_header(const std::string& text, std::uint64_t data_bytes) {
  const nlohmann::json header = nlohmann::json::parse(text, nullptr, false);
  if (!header.is_object()) fail(path_, "", "the header is not a JSON object");
  std::vector<const TensorEntry*> in_order;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      for (const auto& [key, item] : value.items()) {
        if (item.is_string()) metadata_[key] = item.get<std::string>();
      }
      continue;
    }
    in_order.push_back(&entries_.emplace(name, parse_entry(path_, name, value)).first->second);
  }
  std::sort(in_order.begin(), in_order.end(), [](const TensorEntry* a, const TensorEntry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::uint64_t at = 0;
  for (const TensorEntry* entry : in_order) {
    if (entry->begin != at) {
      fail(path_, entry->name,
           fmt::format("starts at byte {} of the data where the tensor before ends at {}", entry->begin, at));
    }
    if (entry->end > data_bytes) {
      fail(path_, entry->name,
           fmt::format("truncated: ends at byte {} of the data, and the file has {}", entry->end, data_bytes));
    }
    at = entry->end;
  }
  if (at != data_bytes) fail(path_, "", fmt::format("{} bytes behind the last tensor", data_bytes - at));
}

at::Tensor SafetensorsFile::tensor(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) fail(path_, name, "no such tensor in this file");
  const TensorEntry& entry = found->second;
  char* data = static_cast<char*>(mapping_->address) + mapping_->data_start + entry.begin;
  const auto options = at::TensorOptions().dtype(entry.dtype);
  if (reinterpret_cast<std::uintptr_t>(data) % c10::elementSize(entry.dtype) != 0) {
    at::Tensor aligned = at::empty(entry.shape, options);  // other writers don't always align
    std::memcpy(aligned.mutable_data_ptr(), data, entry.bytes());
    return aligned;
  }
  return at::from_blob(
      data, entry.shape, [keep = mapping_](void*) {}, options);
}

}  // namespace trireme::train
