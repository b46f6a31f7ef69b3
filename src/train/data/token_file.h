// Token files in Megatron's format: PREFIX.bin holds the tokens of all documents one after another, PREFIX.idx says
// where each begins.
//
//   .idx, little-endian: "MMIDIDX\0\0", uint64 version = 1, uint8 type code, uint64 sequences, uint64 n,
//   int32 length of each sequence (tokens), int64 offset of each sequence in .bin (bytes),
//   int64 first sequence of each document, n of them, the last being the number of sequences.
//
// (Megatron-LM, megatron/core/datasets/indexed_dataset.py.) We write one sequence a document.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "train/data/data_file.h"

namespace trireme::train {

enum class TokenType : std::uint8_t {
  uint8 = 1,
  int8 = 2,
  int16 = 3,
  int32 = 4,
  int64 = 5,
  float64 = 6,
  float32 = 7,
  uint16 = 8
};
int size_of(TokenType type);

// The narrowest type that other readers of the format take too: uint16 below 65,536 tokens, else int32.
TokenType token_type_for(std::int64_t vocab_size);

// Where a file was named, for errors: "run.toml: data.train = ...".
struct DataOrigin {
  std::string file;
  std::string key;
};

class TokenReader {
 public:
  // ConfigError naming the origin when a file is missing, truncated, or not of this format.
  explicit TokenReader(const std::string& prefix, DataOrigin origin = {});

  const std::string& prefix() const { return prefix_; }
  const DataOrigin& origin() const { return origin_; }
  std::int64_t num_documents() const { return static_cast<std::int64_t>(first_token_.size()) - 1; }
  std::int64_t num_tokens() const { return first_token_.back(); }
  // Documents lie in the order of the file: document d is tokens [first_token(d), first_token(d + 1)).
  std::int64_t first_token(std::int64_t document) const { return first_token_[static_cast<std::size_t>(document)]; }
  std::int64_t document_length(std::int64_t d) const { return first_token(d + 1) - first_token(d); }

  // Tokens [first, first + out.size()) of the whole file. ConfigError for one that check_vocabulary() would have refused, had
  // the meta file not said otherwise. RuntimeFailure for a file that is shorter by now.
  void read(std::int64_t first, std::span<std::int64_t> out) const;

  // ConfigError unless every token lies in [0, vocab_size). Reads the whole file (about 2 GB/s), unless
  // PREFIX.meta.json states the highest token of a .bin of this size.
  void check_vocabulary(std::int64_t vocab_size) const;

 private:
  [[noreturn]] void fail(std::string why) const;
  void read_index(const DataFile& idx);

  std::string prefix_;
  DataOrigin origin_;
  TokenType type_ = TokenType::int32;
  DataFile bin_;
  std::vector<std::int64_t> first_token_;  // num_documents + 1
  mutable std::int64_t vocab_size_ = INT64_MAX;  // once check_vocabulary() has been told
};

// Writes documents one after another. prepare() puts both files on the disk beside their names, commit() renames them:
// a disk that is full is noticed while the files of before are as they were.
class TokenWriter {
 public:
  TokenWriter(const std::string& prefix, TokenType type);

  void add_document(std::span<const std::int32_t> tokens);
  void prepare();
  void commit();
  void finish() { prepare(), commit(); }

  std::int64_t num_documents() const { return static_cast<std::int64_t>(lengths_.size()); }
  std::int64_t num_tokens() const { return num_tokens_; }
  std::int64_t max_token() const { return max_token_; }

 private:
  void flush();

  std::string prefix_;
  TokenType type_;
  AtomicFile bin_;
  std::unique_ptr<AtomicFile> idx_;  // once prepared
  std::vector<std::byte> buffer_;
  std::vector<std::int32_t> lengths_;
  std::int64_t num_tokens_ = 0, max_token_ = -1;
};

}  // namespace trireme::train
