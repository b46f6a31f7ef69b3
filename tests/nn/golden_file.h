// A golden of tools/make_goldens.py: a safetensors file (https://github.com/huggingface/safetensors#format: eight bytes
// of header length, a JSON header, the data).
#pragma once
#include <ATen/ATen.h>

#include <filesystem>
#include <map>
#include <string>

namespace trireme::nn {

struct GoldenFile {
  std::map<std::string, std::string> metadata;
  std::map<std::string, at::Tensor> tensors;
};

GoldenFile read_golden(const std::filesystem::path& path);

}  // namespace trireme::nn
