#include "train/checkpoint/checkpoint_reader.h"

#include <fstream>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/checksum.h"
#include "train/checkpoint/safetensors_types.h"
#include "train/checkpoint/training_tensors.h"

namespace trireme::train {

void CheckpointReader::fail(const std::string& file, const std::string& name, const std::string& what) const {
  throw ConfigError({.file = (folder_ / file).string(), .key = name, .allowed = what});
}

CheckpointReader::CheckpointReader(const std::filesystem::path& folder)
    : folder_(folder), index_(read_index(folder / index_file)), model_(model::load_model(folder / model_file)) {
  std::ifstream in(folder_ / state_file);
  state_ = nlohmann::json::parse(in, nullptr, false);
  if (!state_.is_object()) fail(state_file, "", "missing, or not a JSON object");
  if (state_.value("step", nlohmann::json()) != index_.step) {
    fail(state_file, "step", fmt::format("does not agree with {}, which has {}", index_file, index_.step));
  }
}

void CheckpointReader::check_model(const model::ModelSpec& wanted) const {
  check_same_model(model_, wanted, (folder_ / model_file).string());
}

const IndexEntry& CheckpointReader::entry(const std::string& name) const {
  const auto found = index_.tensors.find(name);
  if (found == index_.tensors.end()) fail(index_file, name, "not in the checkpoint");
  return found->second;
}

at::Tensor CheckpointReader::tensor(const std::string& name) const {
  const IndexEntry& wanted = entry(name);
  auto& file = files_[wanted.file];
  if (!file) file = std::make_unique<SafetensorsFile>(folder_ / wanted.file);
  const at::Tensor found = file->tensor(name);
  if (found.scalar_type() != wanted.dtype || found.sizes() != at::IntArrayRef(wanted.shape)) {
    fail(wanted.file, name,
         fmt::format("is {}, and {} says {}", describe(found.scalar_type(), found.sizes()), index_file,
                     describe(wanted.dtype, wanted.shape)));
  }
  if (!wanted.xxh3.empty() && checksum(found) != wanted.xxh3) {
    fail(wanted.file, name,
         fmt::format("its data has another checksum than {} says: the file was damaged after it was written. Restore it, "
                     "or remove {} to go on from the checkpoint before",
                     index_file, folder_.filename().string()));
  }
  return found;
}

void CheckpointReader::load(const std::vector<NamedTensor>& into) const {
  for (const NamedTensor& t : into) {
    const IndexEntry& found = entry(t.name);
    if (found.dtype != t.tensor.scalar_type() || at::IntArrayRef(found.shape) != t.tensor.sizes()) {
      fail(found.file, t.name,
           fmt::format("is {}, and the run needs {}", describe(found.dtype, found.shape),
                       describe(t.tensor.scalar_type(), t.tensor.sizes())));
    }
  }
  at::NoGradGuard no_grad;
  for (const NamedTensor& t : into) t.tensor.detach().copy_(tensor(t.name));
}

at::Tensor CheckpointReader::read(const model::ParameterSpec& parameter) const {
  const std::string master = master_name(parameter.name);
  const std::string& name = has(master) ? master : parameter.name;
  const IndexEntry& found = entry(name);
  if (found.shape != parameter.shape) {
    fail(found.file, name,
         fmt::format("is {}, and the model needs ({})", describe(found.dtype, found.shape),
                     fmt::join(parameter.shape, ", ")));
  }
  return tensor(name);
}

at::Tensor CheckpointReader::selection_bias(int layer) const {
  const std::string name = selection_bias_name(layer);
  return has(name) ? tensor(name) : at::Tensor();
}

}  // namespace trireme::train
