// A Hugging Face folder as a source of weights: config.json and model.safetensors, or the shards that
// model.safetensors.index.json names. Where there are both, model.safetensors is read, as transformers does, unless only
// the shards are complete. Experts may be saved one by one or fused (see hf_names.h); the language model of a multimodal
// folder may lie under a prefix.
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
  void check(const model::ParameterSpec& parameter) const override;
  std::string note() const override { return note_; }
  at::Tensor selection_bias(int) const override { return {}; }  // neither family has one

 private:
  // A tensor that holds a parameter, or an expert's rows of one that holds all of a layer.
  struct Place {
    std::string name;  // in the file
    std::string file;
    int expert = -1;   // of a tensor (experts, rows, columns); -1: the whole tensor
    std::int64_t first_row = 0;
  };
  Place place_of(const model::ParameterSpec& parameter) const;  // ConfigError where there is none, or of another shape
  void add(const std::string& name, const std::string& file);
  void read_index();
  bool has_all() const;  // every parameter of the model
  const std::string* file_of(const std::string& tensor) const;  // null: nowhere
  const SafetensorsFile& open(const std::string& file) const;

  std::filesystem::path folder_;
  model::ModelSpec model_;
  std::string note_;
  std::map<std::string, std::string> file_of_, name_in_file_;  // by the name without a multimodal prefix
  mutable std::map<std::string, std::unique_ptr<SafetensorsFile>> files_;
};

}  // namespace trireme::train
