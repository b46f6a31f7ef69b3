// Reads a checkpoint, in any layout: whoever hosts a tensor asks for it by its global name and gets a copy of exactly
// that tensor; nothing else is read from the disk.
//
//   CheckpointReader reader(latest_checkpoint(run / "checkpoints")->path);
//   reader.check_model(spec);
//   reader.load(hosted_tensors(model, optimizer));
//   optimizer.set_num_steps(reader.step());   tokens = reader.state().count("tokens_seen")
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <vector>

#include "train/checkpoint/checkpoint_index.h"
#include "train/checkpoint/checkpoint_state.h"
#include "train/checkpoint/named_tensor.h"
#include "train/checkpoint/safetensors.h"
#include "train/checkpoint/weight_source.h"

namespace trireme::train {

class CheckpointReader : public WeightSource {
 public:
  // ConfigError with the file for a folder that is not a complete checkpoint, files that don't parse or whose checksum is
  // another, and a folder with the name of another step. RuntimeFailure, here and below, where the folder is removed while it
  // is read.
  explicit CheckpointReader(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  std::int64_t step() const { return index_.step; }
  const CheckpointState& state() const { return state_; }
  // What of it has no checksum and is read as it lies: "state.json"; empty for a checkpoint of today.
  std::vector<std::string> unchecked() const;
  // Opens every file that the index names. ConfigError with file and tensor: missing, malformed, not as the index says, or
  // of another step, run or session. Reads headers, no data.
  void check_files() const;
  const CheckpointIndex& index() const { return index_; }
  const model::ModelSpec& model() const override { return model_; }
  // ConfigError with model.toml and the key that differs from the run's model.
  void check_model(const model::ModelSpec& wanted) const;

  bool has(const std::string& name) const { return index_.tensors.contains(name); }
  // A view of the file. ConfigError with file and name: not in the checkpoint, or a file that disagrees with the index
  // in shape, type or checksum (which reads the whole tensor).
  at::Tensor tensor(const std::string& name) const;
  // Copies into the given tensors, bit for bit. ConfigError with file and name where one is missing or differs in shape
  // or type; checked for all of them before the first is written.
  void load(const std::vector<NamedTensor>& into) const;

  // ConfigError with file and name where a tensor is missing or has another shape or type: what load() would say.
  void expect(const std::string& name, at::ScalarType dtype, at::IntArrayRef shape) const;

  at::Tensor read(const model::ParameterSpec& parameter) const override;  // the master where there is one
  void check(const model::ParameterSpec& parameter) const override;
  at::Tensor selection_bias(int layer) const override;
  std::string note() const override;

 private:
  void check_still_there() const;
  [[noreturn]] void fail(const std::string& file, const std::string& name, const std::string& what) const;
  const IndexEntry& entry(const std::string& name) const;
  std::string name_of(const model::ParameterSpec& parameter) const;  // the master's where there is one
  const SafetensorsFile& open(const std::string& file) const;
  void check_header(const std::string& name, const IndexEntry& wanted) const;

  std::filesystem::path folder_;
  CheckpointIndex index_;
  CheckpointState state_;
  model::ModelSpec model_;
  mutable std::map<std::string, std::unique_ptr<SafetensorsFile>> files_;  // opened when first needed
};

}  // namespace trireme::train
