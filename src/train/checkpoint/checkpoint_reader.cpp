#include "train/checkpoint/checkpoint_reader.h"

#include <fstream>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "base/regular_file.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/checksum.h"
#include "train/checkpoint/plain_file_name.h"
#include "train/checkpoint/safetensors_types.h"
#include "train/checkpoint/training_tensors.h"

namespace trireme::train {

void CheckpointReader::check_still_there() const {
  std::error_code unreadable;
  if (!std::filesystem::exists(folder_ / index_file, unreadable))
    throw RuntimeFailure({.operation = "read " + folder_.string(),
                          .reason = "it was removed meanwhile: a run removes older checkpoints of its own (checkpoint.keep)"});
}

void CheckpointReader::fail(const std::string& file, const std::string& name, const std::string& what) const {
  check_still_there();
  throw ConfigError({.file = (file.empty() ? folder_ : folder_ / file).string(), .key = name, .allowed = what});
}

CheckpointReader::CheckpointReader(const std::filesystem::path& folder)
    : folder_(folder), index_(read_index(folder / index_file)), state_(folder / state_file) {
  for (const auto& [file, expected] : index_.files) {
    if (!is_plain_file_name(file)) fail(index_file, file, "must name a file beside the index");
    std::ifstream in = open_regular(folder_ / file);
    if (!in) fail(file, "", "no such file, or it cannot be read");
    if (checksum_of_bytes(std::string(std::istreambuf_iterator<char>(in), {})) != expected)
      fail(file, "", fmt::format("has another checksum than {} says: it was changed or damaged after it was written. Restore it, "
                                 "or remove {} to go on from the checkpoint before",
                                 index_file, folder_.filename().string()));
  }
  model_ = model::load_model(folder / model_file);
  if (state_.count("step") != index_.step) {
    fail(state_file, "step", fmt::format("does not agree with {}, which has {}", index_file, index_.step));
  }
  // With a slash at its end a path has no name.
  const auto name = (folder_ / "").parent_path().filename().string();
  if (const auto named = step_of_name(name); named && *named != index_.step)
    fail("", "", fmt::format("holds step {}: the folder has the name of another step. Call it {}", index_.step,
                             checkpoint_name(index_.step)));
}

std::vector<std::string> CheckpointReader::unchecked() const {
  std::vector<std::string> out;
  if (!index_.has_checksum) out.push_back(index_file);
  if (!index_.files.contains(model_file)) out.push_back(model_file);
  if (!state_.has_checksum()) out.push_back(state_file);
  for (const auto& [name, entry] : index_.tensors)
    if (entry.xxh3.empty()) {
      out.push_back("tensors");
      break;
    }
  return out;
}

std::string CheckpointReader::note() const {
  const std::vector<std::string> without = unchecked();
  return without.empty() ? "" : fmt::format("{} is of an earlier version: {} have no checksum and are read as they lie",
                                            folder_.string(), fmt::join(without, ", "));
}

const SafetensorsFile& CheckpointReader::open(const std::string& file) const {
  auto& opened = files_[file];
  if (opened) return *opened;
  std::unique_ptr<SafetensorsFile> fresh;
  try {
    fresh = std::make_unique<SafetensorsFile>(folder_ / file);
  } catch (const ConfigError&) {
    check_still_there();
    throw;
  }
  if (const std::string foreign = why_foreign(fresh->metadata(), index_.step, index_.writer); !foreign.empty())
    fail(file, "", fmt::format("{}: the checkpoint is mixed from several", foreign));
  opened = std::move(fresh);
  return *opened;
}

void CheckpointReader::check_header(const std::string& name, const IndexEntry& wanted) const {
  const auto& entries = open(wanted.file).entries();
  const auto found = entries.find(name);
  if (found == entries.end()) fail(wanted.file, name, "no such tensor in this file");
  if (found->second.dtype != wanted.dtype || found->second.shape != wanted.shape)
    fail(wanted.file, name,
         fmt::format("is {}, and {} says {}", describe(found->second.dtype, found->second.shape), index_file,
                     describe(wanted.dtype, wanted.shape)));
}

void CheckpointReader::check_files() const {
  for (const auto& [name, wanted] : index_.tensors) check_header(name, wanted);
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
  check_header(name, wanted);
  const at::Tensor found = open(wanted.file).tensor(name);
  if (!wanted.xxh3.empty() && checksum(found) != wanted.xxh3) {
    fail(wanted.file, name,
         fmt::format("its data has another checksum than {} says: the file was damaged after it was written. Restore it, "
                     "or remove {} to go on from the checkpoint before",
                     index_file, folder_.filename().string()));
  }
  return found;
}

void CheckpointReader::expect(const std::string& name, at::ScalarType dtype, at::IntArrayRef shape) const {
  const IndexEntry& found = entry(name);
  if (found.dtype != dtype || at::IntArrayRef(found.shape) != shape)
    fail(found.file, name, fmt::format("is {}, and the run needs {}", describe(found.dtype, found.shape), describe(dtype, shape)));
}

void CheckpointReader::load(const std::vector<NamedTensor>& into) const {
  for (const NamedTensor& t : into) expect(t.name, t.tensor.scalar_type(), t.tensor.sizes());
  at::NoGradGuard no_grad;
  for (const NamedTensor& t : into) t.tensor.detach().copy_(tensor(t.name));
}

void CheckpointReader::check(const model::ParameterSpec& parameter) const {
  const std::string name = name_of(parameter);
  const IndexEntry& found = entry(name);
  if (found.shape != parameter.shape) {
    fail(found.file, name,
         fmt::format("is {}, and the model needs ({})", describe(found.dtype, found.shape),
                     fmt::join(parameter.shape, ", ")));
  }
  check_header(name, found);
}

std::string CheckpointReader::name_of(const model::ParameterSpec& parameter) const {
  const std::string master = master_name(parameter.name);
  return has(master) ? master : parameter.name;
}

at::Tensor CheckpointReader::read(const model::ParameterSpec& parameter) const {
  check(parameter);
  return tensor(name_of(parameter));
}

at::Tensor CheckpointReader::selection_bias(int layer) const {
  const std::string name = selection_bias_name(layer);
  return has(name) ? tensor(name) : at::Tensor();
}

}  // namespace trireme::train
