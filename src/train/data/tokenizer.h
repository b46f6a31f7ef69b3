// Text to tokens. Two kinds: bytes, and SentencePiece models.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::train {

struct SpecialTokens {
  std::int32_t eos = -1;  // -1: the tokenizer has none
  std::int32_t bos = -1;
  std::int32_t pad = -1;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::string name() const = 0;  // "byte", "sentencepiece"
  virtual std::int64_t vocab_size() const = 0;
  virtual SpecialTokens special() const = 0;
  virtual void encode(std::string_view text, std::vector<std::int32_t>& out) const = 0;  // appends; no specials
  virtual std::string decode(const std::vector<std::int32_t>& tokens) const = 0;         // specials give nothing
};

// Tokens 0..255 are bytes, 256 eos, 257 bos, 258 pad: any text, lossless.
std::unique_ptr<Tokenizer> byte_tokenizer();

// A .model file. ConfigError when it can't be read, or when this build has no SentencePiece.
std::unique_ptr<Tokenizer> sentencepiece_tokenizer(const std::filesystem::path& model);

// "byte", or the path of a SentencePiece .model.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name);

struct SentencePieceTraining {
  std::vector<std::filesystem::path> inputs;
  std::filesystem::path model;           // written here
  std::int64_t vocab_size = 4096;        // bytes, specials and pieces
  std::string kind = "bpe";              // bpe | unigram
  std::int64_t sample_bytes = 20 << 20;  // of text: lines at equal distances
};
// Lossless: no normalisation, spaces and line ends kept, unknown characters as bytes.
void train_sentencepiece(const SentencePieceTraining& options);

}  // namespace trireme::train
