// The tokenizer that a data set was made with. `trireme data` keeps it beside the tokens, so that they can be turned
// back into text, and a model trained on them be used, wherever the files are moved.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "train/data/tokenizer.h"

namespace trireme::train {

// `prefix` as in RUN.toml: PREFIX.bin, PREFIX.idx, PREFIX.meta.json. Its end, begin and padding tokens are those of
// PREFIX.meta.json. ConfigError, naming that file, where there is none or the tokenizer that it names is missing.
std::unique_ptr<Tokenizer> tokenizer_of_dataset(const std::string& prefix);

// The files of that tokenizer: none for bytes; PREFIX.tokenizer.model of SentencePiece; for Hugging Face the files of
// the folder PREFIX.tokenizer, under the names that a model folder gives them. ConfigError as above.
std::vector<std::filesystem::path> tokenizer_files_of_dataset(const std::string& prefix);

// What is kept of a tokenizer beside PREFIX.bin.
struct KeptTokenizer {
  std::string name;  // of the file or folder, for DatasetMeta::tokenizer_file; empty for bytes
  // Name below the folder of PREFIX, and content.
  std::vector<std::pair<std::filesystem::path, std::string>> files;
};
KeptTokenizer kept_tokenizer(const Tokenizer& tokenizer, const std::string& prefix);

}  // namespace trireme::train
