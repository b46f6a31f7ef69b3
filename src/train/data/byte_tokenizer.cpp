#include "base/errors.h"
#include "train/data/tokenizer.h"

namespace trireme::train {
namespace {

class ByteTokenizer final : public Tokenizer {
 public:
  std::string name() const override { return "byte"; }
  std::int64_t vocab_size() const override { return 259; }
  SpecialTokens special() const override { return {.eos = 256, .bos = 257, .pad = 258}; }

  void encode(std::string_view text, std::vector<std::int32_t>& out) const override {
    out.reserve(out.size() + text.size());
    for (const unsigned char c : text) out.push_back(c);
  }

  std::string decode(const std::vector<std::int32_t>& tokens) const override {
    std::string text;
    for (const std::int32_t token : tokens)
      if (token >= 0 && token < 256) text.push_back(static_cast<char>(static_cast<unsigned char>(token)));
    return text;
  }
};

}  // namespace

std::unique_ptr<Tokenizer> byte_tokenizer() {
  return std::make_unique<ByteTokenizer>();
}

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name) {
  if (name == "byte") return byte_tokenizer();
  if (std::filesystem::path(name).extension() == ".model") return sentencepiece_tokenizer(name);
  throw ConfigError(
      {.key = "--tokenizer", .value = name, .allowed = "must be \"byte\" or the path of a SentencePiece .model"});
}

}  // namespace trireme::train
