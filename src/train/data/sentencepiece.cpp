#include "base/errors.h"
#include "train/data/tokenizer.h"

#if TRIREME_WITH_SENTENCEPIECE

#include <sentencepiece_processor.h>

namespace trireme::train {
namespace {

namespace sp = sentencepiece;

// SentencePiece writes spaces as this character, so that it reads the character itself back as a space.
constexpr std::string_view escaped_space = "\xe2\x96\x81";

std::int64_t count(std::string_view text, std::string_view what) {
  std::int64_t n = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string_view::npos; at += what.size()) ++n;
  return n;
}

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(const std::filesystem::path& model, const std::string& eos)
      : Tokenizer({.name = "sentencepiece", .files = {model}}) {
    const auto status = processor_.Load(model.string());
    if (!status.ok())
      throw ConfigError(
          {.file = model.string(), .allowed = fmt::format("not a SentencePiece model: {}", status.ToString())});
    info_.vocab_size = processor_.GetPieceSize();
    info_.special = {.eos = processor_.eos_id(), .bos = processor_.bos_id(), .pad = processor_.pad_id()};
    if (eos.empty()) return;
    const int id = processor_.PieceToId(eos);
    if (id == processor_.unk_id())
      throw ConfigError({.key = "--eos", .value = eos, .allowed = fmt::format("{} has no such piece", model.string())});
    info_.special.eos = id;
  }

  // The whole text at once. Cutting a long one would be faster, but a unigram model's sums round differently then, and
  // a prefix or a rule for white space applies at each cut: the tokens would be others.
  std::vector<Encoding> encode_batch(std::span<const std::string_view> texts, bool with_spans) const override {
    std::vector<Encoding> out(texts.size());
    for (std::size_t t = 0; t < texts.size(); ++t) {
      Encoding& encoding = out[t];
      if (with_spans) {
        const auto pieces = processor_.EncodeAsImmutableProto({texts[t].data(), texts[t].size()});
        for (std::size_t i = 0; i < pieces.pieces_size(); ++i) {
          const auto piece = pieces.pieces(static_cast<int>(i));
          encoding.tokens.push_back(static_cast<std::int32_t>(piece.id()));
          encoding.spans.push_back({piece.begin(), piece.end()});
        }
      } else {
        const auto status = processor_.Encode({texts[t].data(), texts[t].size()}, &encoding.tokens);
        TRIREME_CHECK(status.ok(), "SentencePiece: {}", status.ToString());
      }
      for (const std::int32_t token : encoding.tokens) encoding.num_unknown += token == processor_.unk_id();
      encoding.num_u2581 = count(texts[t], escaped_space);
    }
    return out;
  }

  std::string decode(const std::vector<std::int32_t>& tokens) const override {
    std::string text;
    std::vector<int> ids;
    for (const std::int32_t token : tokens)
      if (token >= 0 && token < processor_.GetPieceSize() && !processor_.IsControl(token)) ids.push_back(token);
    const auto status = processor_.Decode(ids, &text);
    TRIREME_CHECK(status.ok(), "SentencePiece: {}", status.ToString());
    return text;
  }

 private:
  sp::SentencePieceProcessor processor_;
};

}  // namespace

std::unique_ptr<Tokenizer> sentencepiece_tokenizer(const std::filesystem::path& model, const std::string& eos) {
  return std::make_unique<SentencePieceTokenizer>(model, eos);
}

}  // namespace trireme::train

#else

namespace trireme::train {

std::unique_ptr<Tokenizer> sentencepiece_tokenizer(const std::filesystem::path&, const std::string&) {
  throw ConfigError(
      {.key = "--tokenizer", .allowed = "this build has no SentencePiece (Debian: libsentencepiece-dev)"});
}

}  // namespace trireme::train

#endif
