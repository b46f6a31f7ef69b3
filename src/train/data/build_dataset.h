// Text files to token files for training and validation: what `trireme data` does.
//
// PREFIX_train.{bin,idx,meta.json} and, where valid_fraction > 0, PREFIX_valid.{bin,idx,meta.json}.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "train/data/dataset_meta.h"
#include "train/data/documents.h"

namespace trireme::train {

struct DataBuildOptions {
  std::vector<std::filesystem::path> inputs;
  std::string output_prefix;
  std::string tokenizer = "byte";  // "byte" or a SentencePiece .model
  DocumentOptions documents;
  double valid_fraction = 0.01;  // of documents, chosen by a hash of their text: the same text is never on both sides
  std::uint64_t seed = 1;        // of that choice
  bool append_eos = true;
  bool prepend_bos = false;
};

struct DataBuildProgress {
  std::int64_t bytes_done = 0, bytes_total = 0;
  std::int64_t num_documents = 0, num_tokens = 0;
  double seconds = 0;
  double fraction() const {
    return bytes_total > 0 ? static_cast<double>(bytes_done) / static_cast<double>(bytes_total) : 1;
  }
  double bytes_per_second() const { return seconds > 0 ? static_cast<double>(bytes_done) / seconds : 0; }
  double seconds_left() const {
    return bytes_per_second() > 0 ? static_cast<double>(bytes_total - bytes_done) / bytes_per_second() : 0;
  }
};

struct DataBuildResult {
  DatasetMeta train, valid;  // valid: all zero where valid_fraction is 0
  double seconds = 0;
};

// ConfigError for a missing input, an unknown tokenizer, or a split that leaves one side without documents.
DataBuildResult build_dataset(const DataBuildOptions& options,
                              const std::function<void(const DataBuildProgress&)>& progress = {});

}  // namespace trireme::train
