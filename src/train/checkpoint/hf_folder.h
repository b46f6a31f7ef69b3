// A Hugging Face folder as a source of weights: config.json and model.safetensors, or the shards that
// model.safetensors.index.json names. Experts may be saved one by one or fused (see hf_names.h).
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "train/checkpoint/safetensors.h"
#include "train/checkpoint/weight_source.h"

namespace trireme::train {

class HfFolder : public WeightSource {
 public:
  // ConfigError with the file: no config.json, another kind of model, no weights, a malformed index.
  explicit HfFolder(const std::filesystem::path& folder);

  const model::ModelSpec& model() const override { return model_; }
  at::Tensor read(const model::ParameterSpec& parameter) const override;
  at::Tensor selection_bias(int) const override { return {}; }  // neither family has one

 private:
  const std::string* file_of(const std::string& tensor) const;  // null: nowhere
  at::Tensor tensor(const std::string& name) const;

  std::filesystem::path folder_;
  model::ModelSpec model_;
  std::map<std::string, std::string> file_of_;
  mutable std::map<std::string, std::unique_ptr<SafetensorsFile>> files_;
};

}  // namespace trireme::train
