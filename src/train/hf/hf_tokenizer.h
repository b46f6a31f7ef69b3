// A tokenizer as the files that transformers' AutoTokenizer reads.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trireme::train {

struct HfTokenizer {
  enum class Kind { byte, sentencepiece, huggingface };
  Kind kind = Kind::byte;
  std::filesystem::path file;  // .model; a tokenizer.json (of any name) or the folder that holds one; empty for bytes
  std::int32_t eos = -1;       // the id that the data has at the end of documents; -1: not known
  bool operator==(const HfTokenizer&) const = default;
};

struct SpecialIds {
  std::int32_t eos = -1, bos = -1, pad = -1;  // -1: none
};

// What PREFIX.meta.json says the data was made with. Nothing where there is no meta file, or it names another tool's tokenizer.
// ConfigError where the tokenizer's file is missing.
std::optional<HfTokenizer> tokenizer_of_data(const std::string& prefix);
// "byte", a SentencePiece .model, a tokenizer.json, or a folder that holds one of the two. ConfigError (--tokenizer).
HfTokenizer tokenizer_named(const std::string& name);

// Whether write_tokenizer() or a copy of a Hugging Face folder's tokenizer may write a file of this name.
bool is_tokenizer_file(const std::string& name);

// Files of a Hugging Face folder that belong to its tokenizer, chat template and generation settings.
std::vector<std::filesystem::path> tokenizer_files_in(const std::filesystem::path& folder);

// Writes tokenizer.json, tokenizer_config.json and the like into the folder, and returns the special ids. `note` gets what
// could not be written (tokenizer.json of a SentencePiece model that the format can't say).
SpecialIds write_tokenizer(const HfTokenizer& tokenizer, const std::filesystem::path& folder, std::int64_t longest_sequence,
                           std::string& note);

}  // namespace trireme::train
