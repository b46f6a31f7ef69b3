// Text to tokens. Three kinds: bytes, SentencePiece models, and tokenizers of Hugging Face.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::train {

struct SpecialTokens {
  std::int32_t eos = -1;  // -1: the tokenizer has none
  std::int32_t bos = -1;
  std::int32_t pad = -1;
  bool operator==(const SpecialTokens&) const = default;
};

struct TokenizerInfo {
  std::string name;  // "byte", "sentencepiece", "huggingface"
  std::int64_t vocab_size = 0;
  SpecialTokens special;
  std::vector<std::filesystem::path> files;  // what it was read from
  std::vector<std::string> added_tokens;     // huggingface: beside the vocabulary, in the order of their ids
};

// Bytes [begin, end) of a text. A token that is a part of a character has an empty one, or the character's.
struct ByteSpan {
  std::size_t begin = 0, end = 0;
  bool operator==(const ByteSpan&) const = default;
};

struct Encoding {
  std::vector<std::int32_t> tokens;  // no specials are added
  std::vector<ByteSpan> spans;       // of each token in its text; empty unless they were asked for
  std::int64_t num_unknown = 0;      // tokens that say "unknown": what they stood for is lost
  std::int64_t num_u2581 = 0;        // characters U+2581 that decode as spaces
};

// Not thread-safe: a tokenizer may talk to a process of its own.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  const std::string& name() const { return info_.name; }
  std::int64_t vocab_size() const { return info_.vocab_size; }
  const SpecialTokens& special() const { return info_.special; }
  const std::vector<std::filesystem::path>& files() const { return info_.files; }
  const std::vector<std::string>& added_tokens() const { return info_.added_tokens; }
  void set_special(const SpecialTokens& special) { info_.special = special; }

  // One encoding a text, as the tokenizer's own library encodes the whole of it.
  virtual std::vector<Encoding> encode_batch(std::span<const std::string_view> texts, bool with_spans) const = 0;
  virtual std::string decode(const std::vector<std::int32_t>& tokens) const = 0;  // specials give nothing

  void encode(std::string_view text, std::vector<std::int32_t>& out) const;  // appends

 protected:
  explicit Tokenizer(TokenizerInfo info) : info_(std::move(info)) {}
  TokenizerInfo info_;
};

// Tokens 0..255 are bytes, 256 eos, 257 bos, 258 pad: any text, lossless.
std::unique_ptr<Tokenizer> byte_tokenizer();

// A .model file. ConfigError when it can't be read, or when this build has no SentencePiece. `eos`: the end token's
// text where it is not the model's own.
std::unique_ptr<Tokenizer> sentencepiece_tokenizer(const std::filesystem::path& model, const std::string& eos = "");

// A tokenizer.json or a folder that holds one, read by the Python package `tokenizers` in a child process. ConfigError
// when it can't be read, or when python3 or the package is missing.
std::unique_ptr<Tokenizer> huggingface_tokenizer(const std::filesystem::path& path, const std::string& eos = "");

// "byte", the path of a SentencePiece .model, or of what huggingface_tokenizer reads.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name, const std::string& eos = "");

}  // namespace trireme::train
