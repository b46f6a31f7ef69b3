// What is known of a token file: PREFIX.meta.json beside PREFIX.bin and .idx. Optional: files of other tools have none.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace trireme::train {

struct DatasetMeta {
  std::string tokenizer;       // "byte", "sentencepiece", "huggingface", or what another tool wrote
  std::string tokenizer_file;  // file or folder beside the meta file; empty where there is none
  std::int64_t vocab_size = 0;
  std::int32_t eos = -1, bos = -1, pad = -1;  // -1: none
  std::int64_t num_documents = 0, num_tokens = 0;
  std::int64_t max_token = -1;
  std::int64_t bin_bytes = 0;        // what the above was found for
  std::int64_t num_unknown = 0;      // tokens that say "unknown": what they stood for is lost
  std::int64_t num_u2581 = 0;        // characters U+2581 that the tokenizer gives back as spaces
  bool weights = false;              // PREFIX.weights belongs to it
  std::vector<std::string> sources;  // file names, without folders
  bool operator==(const DatasetMeta&) const = default;
};
TRIREME_JSON(DatasetMeta)

std::string meta_text(const DatasetMeta& meta);
void write_meta(const std::string& prefix, const DatasetMeta& meta);
// Nothing when there is no such file, or when it is of another .bin (by size).
std::optional<DatasetMeta> read_meta(const std::string& prefix);

}  // namespace trireme::train
