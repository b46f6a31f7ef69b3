#include "train/data/tokenizer.h"

namespace trireme::train {
namespace {

class ByteTokenizer final : public Tokenizer {
 public:
  ByteTokenizer() : Tokenizer({.name = "byte", .vocab_size = 259, .special = {.eos = 256, .bos = 257, .pad = 258}}) {}

  std::vector<Encoding> encode_batch(std::span<const std::string_view> texts, bool with_spans) const override {
    std::vector<Encoding> out(texts.size());
    for (std::size_t t = 0; t < texts.size(); ++t) {
      out[t].tokens.reserve(texts[t].size());
      for (const unsigned char c : texts[t]) out[t].tokens.push_back(c);
      if (!with_spans) continue;
      out[t].spans.reserve(texts[t].size());
      for (std::size_t i = 0; i < texts[t].size(); ++i) out[t].spans.push_back({i, i + 1});
    }
    return out;
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

}  // namespace trireme::train
