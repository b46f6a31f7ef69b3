// A golden of tools/make_goldens.py: a safetensors file (https://github.com/huggingface/safetensors#format: eight bytes
// of header length, a JSON header, the data).
#pragma once
#include <ATen/ATen.h>

#include <filesystem>
#include <map>
#include <string>

#include "nn/model.h"

namespace trireme::nn {

struct GoldenFile {
  std::map<std::string, std::string> metadata;
  std::map<std::string, at::Tensor> tensors;
};

GoldenFile read_golden(const std::filesystem::path& path);

// Its weights: int8 in units of 1/128, norms as their distance from 1. Returns how many there are.
std::size_t fill_from_golden(Model& model, const GoldenFile& golden);

}  // namespace trireme::nn
