#include "train/data/tokenizer.h"

#include "base/errors.h"

namespace trireme::train {

void Tokenizer::encode(std::string_view text, std::vector<std::int32_t>& out) const {
  const Encoding encoding = std::move(encode_batch({&text, 1}, false).front());
  out.insert(out.end(), encoding.tokens.begin(), encoding.tokens.end());
}

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name, const std::string& eos) {
  const std::filesystem::path path(name);
  if (name == "byte") {
    if (!eos.empty())
      throw ConfigError({.key = "--eos", .value = eos, .allowed = "the byte tokenizer has an end token of its own"});
    return byte_tokenizer();
  }
  std::error_code ignored;
  if (path.extension() == ".model") return sentencepiece_tokenizer(path, eos);
  if (path.extension() == ".json" || std::filesystem::is_directory(path, ignored))
    return huggingface_tokenizer(path, eos);
  throw ConfigError({.key = "--tokenizer",
                     .value = name,
                     .allowed = "must be \"byte\", the path of a SentencePiece .model, or of a Hugging Face "
                                "tokenizer.json or a folder that holds one"});
}

}  // namespace trireme::train
