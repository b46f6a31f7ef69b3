// Text files to token files for training and validation: what `trireme data` does.
//
// PREFIX_train.{bin,idx,meta.json} and, where valid_fraction > 0, PREFIX_valid.{bin,idx,meta.json}; beside them the
// tokenizer (dataset_tokenizer.h) and, where the documents say how much they count, PREFIX_train.weights
// (weight_file.h).
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "train/data/data_progress.h"
#include "train/data/dataset_meta.h"
#include "train/data/documents.h"

namespace trireme::train {

struct DataBuildOptions {
  std::vector<std::filesystem::path> inputs;  // files and folders
  std::string output_prefix;
  std::string tokenizer = "byte";  // as make_tokenizer takes it
  std::string eos;                 // text of the end token, where it is not the tokenizer's own
  DocumentOptions documents;
  double valid_fraction = 0.01;  // of documents, chosen by a hash of their text: the same text is never on both sides
  std::uint64_t seed = 1;        // of that choice
  bool append_eos = true;
  bool prepend_bos = false;
  std::function<bool()> stopped;  // asked after each document and block of text: true ends the work (RuntimeFailure)
};

struct DataBuildResult {
  DatasetMeta train, valid;  // valid: all zero where valid_fraction is 0
  SkippedDocuments skipped;  // documents.skip_bad
  double seconds = 0;
};

// ConfigError where build_dataset would refuse the options or the files, before it reads their text. The tokenizer is
// not looked at.
void check_data_build(const DataBuildOptions& options);

// ConfigError for a missing input, an unknown tokenizer, a bad document, or a split that leaves one side without
// documents. Files of before are then as they were.
DataBuildResult build_dataset(const DataBuildOptions& options, const ShowProgress& show = {});

}  // namespace trireme::train
