// index.json of a checkpoint: which file holds which tensor.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "model/model_spec.h"
#include "plan/frozen_parameters.h"
#include "train/checkpoint/named_tensor.h"

namespace trireme::train {

struct IndexEntry {
  std::string file;  // beside the index
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> shape;
  std::string xxh3;  // checksum.h; empty where the writer gave none
};

struct CheckpointIndex {
  std::int64_t step = 0;
  std::map<std::string, IndexEntry> tensors;
};

// A rank file's metadata: what index_rank_files takes the checksums from.
std::map<std::string, std::string> rank_file_metadata(std::int64_t step, const std::vector<NamedTensor>& tensors);

// From the headers of the files of `num_ranks` ranks that are in `folder`. RuntimeFailure where two hold one tensor.
CheckpointIndex index_rank_files(const std::filesystem::path& folder, std::int64_t step, int num_ranks);

// RuntimeFailure naming the first parameter of the model that is missing or has another shape, and the first one whose
// optimizer state is missing where others have it and it is not frozen: a checkpoint that could not be loaded is never
// committed.
void check_complete(const CheckpointIndex& index, const model::ModelSpec& model, const plan::FrozenParameters& frozen = {});

std::string to_json_text(const CheckpointIndex& index);
// ConfigError with the file for anything malformed.
CheckpointIndex read_index(const std::filesystem::path& path);

}  // namespace trireme::train
