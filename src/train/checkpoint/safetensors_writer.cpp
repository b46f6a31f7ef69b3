#include <algorithm>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "train/checkpoint/safetensors.h"
#include "train/checkpoint/safetensors_types.h"

namespace trireme::train {

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorEntry> entries,
                                     const std::map<std::string, std::string>& metadata)
    : file_(path) {
  std::stable_sort(entries.begin(), entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return c10::elementSize(a.dtype) > c10::elementSize(b.dtype);
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t at = 0;
  for (TensorEntry& entry : entries) {
    entry.begin = at;
    entry.end = at += entry.bytes();
    header[entry.name] = {
        {"dtype", safetensors_dtype(entry.dtype)}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}};
    TRIREME_CHECK(entries_.emplace(entry.name, entry).second, "{} is written twice", entry.name);
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data starts aligned; the format allows trailing spaces
  const std::uint64_t length = text.size();
  file_.write(std::as_bytes(std::span(&length, 1)));
  file_.write(text);
  data_start_ = sizeof(length) + length;
}

void SafetensorsWriter::write(const std::string& name, const at::Tensor& tensor) {
  const auto found = entries_.find(name);
  TRIREME_CHECK(found != entries_.end(), "{} is not in the header", name);
  const TensorEntry& entry = found->second;
  TRIREME_CHECK(tensor.scalar_type() == entry.dtype && tensor.sizes() == at::IntArrayRef(entry.shape),
                "{} is {}, and the header says {}", name, describe(tensor.scalar_type(), tensor.sizes()),
                describe(entry.dtype, entry.shape));
  TRIREME_CHECK(written_.emplace(name, true).second, "{} is written twice", name);
  const at::Tensor host = tensor.detach().to(at::kCPU).contiguous();
  file_.write_at(data_start_ + entry.begin,
                 {static_cast<const std::byte*>(host.const_data_ptr()), static_cast<std::size_t>(entry.bytes())});
}

void SafetensorsWriter::commit() {
  TRIREME_CHECK(written_.size() == entries_.size(), "{} of {} tensors are written", written_.size(), entries_.size());
  file_.commit();
}

void write_safetensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<TensorEntry> entries;
  for (const NamedTensor& t : tensors) {
    entries.push_back({.name = t.name, .dtype = t.tensor.scalar_type(), .shape = t.tensor.sizes().vec()});
  }
  SafetensorsWriter writer(path, std::move(entries), metadata);
  for (const NamedTensor& t : tensors) writer.write(t.name, t.tensor);
  writer.commit();
}

}  // namespace trireme::train
