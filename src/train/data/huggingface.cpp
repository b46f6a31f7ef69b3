#include <algorithm>
#include <bit>

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/utf8.h"
#include "train/data/huggingface_script.h"
#include "train/data/python_process.h"
#include "train/data/tokenizer.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;

fs::path tokenizer_json_of(const fs::path& path) {
  std::error_code ignored;
  const auto fail = [&](std::string why) {
    throw ConfigError({.key = "--tokenizer", .value = path.string(), .allowed = std::move(why)});
  };
  if (!fs::exists(path, ignored)) fail("no such file or folder");
  if (!fs::is_directory(path, ignored)) return path;
  if (fs::exists(path / "tokenizer.json", ignored)) return path / "tokenizer.json";
  for (const char* model : {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model"})
    if (fs::exists(path / model, ignored))
      fail(
          fmt::format("the folder holds no tokenizer.json: name its SentencePiece model, {}", (path / model).string()));
  if (fs::exists(path / "vocab.json", ignored) || fs::exists(path / "vocab.txt", ignored))
    fail(
        "the folder holds no tokenizer.json, but an older form. In Python, "
        "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) of `transformers` writes one");
  fail("the folder holds no tokenizer.json");
  return {};
}

// Character offsets to bytes: where each character of the text begins, and its end.
std::vector<std::size_t> character_begins(std::string_view text) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) out.push_back(i);
  out.push_back(text.size());
  return out;
}

class HuggingFaceTokenizer final : public Tokenizer {
 public:
  HuggingFaceTokenizer(const fs::path& file, const std::string& eos)
      : Tokenizer({.name = "huggingface"}), python_(huggingface_script, {file.string(), eos}, file.string()) {
    const std::string line = python_.receive_line();
    try {
      const json hello = json::parse(line);
      if (hello.contains("error")) refuse(hello, file, eos);
      info_.vocab_size = hello.at("vocab_size");
      info_.special = {.eos = hello.at("eos"), .bos = hello.at("bos"), .pad = hello.at("pad")};
      for (const auto& name : hello.at("files")) info_.files.emplace_back(name.get<std::string>());
      hello.at("added").get_to(info_.added_tokens);
      escapes_spaces_ = hello.at("escapes_spaces");
    } catch (const json::exception&) {
      throw ConfigError({.file = file.string(),
                         .allowed = fmt::format("is read by python3, and the python3 that the PATH finds does not run what "
                                                "it is given: it answered \"{}\"",
                                                line.substr(0, 200))});
    }
  }

  std::vector<Encoding> encode_batch(std::span<const std::string_view> texts, bool with_spans) const override {
    json lengths = json::array();
    for (const std::string_view text : texts) {
      if (const std::size_t bad = first_not_utf8(text); bad != text.size())
        throw ConfigError({.key = "text", .allowed = fmt::format("is not UTF-8 at byte {}", bad)});
      lengths.push_back(text.size());
    }
    python_.send(json{{"encode", lengths}, {"spans", with_spans}}.dump() + "\n");
    for (const std::string_view text : texts) python_.send(text);
    const json header = answer();
    std::vector<Encoding> out(texts.size());
    for (std::size_t t = 0; t < texts.size(); ++t) {
      out[t].tokens.resize(header.at("tokens").at(t).get<std::size_t>());
      out[t].num_unknown = header.at("unknown").at(t);
      if (escapes_spaces_) out[t].num_u2581 = count_u2581(texts[t]);
      receive(out[t].tokens);
    }
    for (std::size_t t = 0; with_spans && t < texts.size(); ++t) {
      std::vector<std::int32_t> bounds(2 * out[t].tokens.size());
      receive(bounds);
      const auto begins = character_begins(texts[t]);
      const auto byte_of = [&](std::int32_t character) {
        return begins[std::min(static_cast<std::size_t>(std::max(character, 0)), begins.size() - 1)];
      };
      for (std::size_t i = 0; i < bounds.size(); i += 2)
        out[t].spans.push_back({byte_of(bounds[i]), byte_of(bounds[i + 1])});
    }
    return out;
  }

  std::string decode(const std::vector<std::int32_t>& tokens) const override {
    json known = json::array();
    for (const std::int32_t token : tokens)
      if (token >= 0 && token < info_.vocab_size) known.push_back(token);
    python_.send(json{{"decode", known}}.dump() + "\n");
    std::string text(answer().at("bytes").get<std::size_t>(), '\0');
    python_.receive(std::as_writable_bytes(std::span(text)));
    return text;
  }

 private:
  static std::int64_t count_u2581(std::string_view text) {
    std::int64_t n = 0;
    for (std::size_t at = 0; (at = text.find("\xe2\x96\x81", at)) != std::string_view::npos; at += 3) ++n;
    return n;
  }

  void receive(std::vector<std::int32_t>& out) const {
    static_assert(std::endian::native == std::endian::little, "the script sends the machine's own order");
    python_.receive(std::as_writable_bytes(std::span(out)));
  }

  json answer() const {
    const std::string line = python_.receive_line();
    json header = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!header.is_object())
      throw RuntimeFailure({.operation = "tokenize", .reason = fmt::format("python3 answered \"{}\"", line.substr(0, 200))});
    if (header.contains("error"))
      throw RuntimeFailure(
          {.operation = "tokenize", .reason = fmt::format("tokenizers: {}", header["error"].get<std::string>())});
    return header;
  }

  [[noreturn]] static void refuse(const json& hello, const fs::path& file, const std::string& eos) {
    const std::string why = hello["error"], kind = hello["kind"];
    if (kind == "package")
      throw ConfigError(
          {.file = file.string(),
           .allowed = fmt::format("is read by python3 with its package `tokenizers`, which python3 does not "
                                  "have ({}): run `pip install tokenizers` in the virtual environment that "
                                  "is active",
                                  why)});
    if (kind == "eos") throw ConfigError({.file = file.string(), .key = "--eos", .value = eos, .allowed = why});
    throw ConfigError({.file = file.string(), .allowed = why});
  }

  mutable PythonProcess python_;
  bool escapes_spaces_ = false;
};

}  // namespace

std::unique_ptr<Tokenizer> huggingface_tokenizer(const fs::path& path, const std::string& eos) {
  return std::make_unique<HuggingFaceTokenizer>(tokenizer_json_of(path), eos);
}

}  // namespace trireme::train
