// index.json of a checkpoint: which file holds which tensor, and the checksums of the checkpoint's small files and of itself.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "model/model_spec.h"
#include "plan/frozen_parameters.h"
#include "train/checkpoint/named_tensor.h"
#include "train/run_folder/run_identity.h"

namespace trireme::train {

struct IndexEntry {
  std::string file;  // beside the index
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> shape;
  std::string xxh3;  // checksum.h; empty where the writer gave none
};

struct CheckpointIndex {
  std::int64_t step = 0;
  RunIdentity writer;                       // empty in checkpoints of before
  std::map<std::string, std::string> files;  // checksums of model.toml and state.json; empty in checkpoints of before
  bool has_checksum = true;                 // of the index itself
  std::map<std::string, IndexEntry> tensors;
};

// A rank file's metadata: step, run and session, and what index_rank_files takes the checksums from.
std::map<std::string, std::string> rank_file_metadata(std::int64_t step, const RunIdentity& writer,
                                                      const std::vector<NamedTensor>& tensors);
// Why a file with this metadata does not belong to the checkpoint of `step` by `writer`; empty: it does, or does not tell.
std::string why_foreign(const std::map<std::string, std::string>& metadata, std::int64_t step, const RunIdentity& writer);

// From the headers of the files of `num_ranks` ranks that are in `folder`. RuntimeFailure where two hold one tensor, or a
// file is of another step, run or session.
CheckpointIndex index_rank_files(const std::filesystem::path& folder, std::int64_t step, const RunIdentity& writer,
                                 int num_ranks);

// RuntimeFailure naming the first parameter of the model that is missing or has another shape, and the first one whose
// optimizer state is missing where others have it and it is not frozen: a checkpoint that could not be loaded is never
// committed.
void check_complete(const CheckpointIndex& index, const model::ModelSpec& model, const plan::FrozenParameters& frozen = {});

std::string to_json_text(const CheckpointIndex& index);
// ConfigError with the file for anything malformed, for a file name that leads out of the folder, and for another checksum.
CheckpointIndex read_index(const std::filesystem::path& path);

}  // namespace trireme::train
