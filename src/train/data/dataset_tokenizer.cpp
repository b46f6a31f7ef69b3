#include "train/data/dataset_tokenizer.h"

#include <algorithm>

#include "base/errors.h"
#include "base/read_file.h"
#include "train/data/dataset_meta.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& prefix, std::string why) {
  throw ConfigError({.file = prefix + ".meta.json", .allowed = std::move(why)});
}

DatasetMeta meta_of(const std::string& prefix) {
  std::error_code ignored;
  if (!fs::exists(prefix + ".meta.json", ignored))
    fail(prefix, "no such file: it says which tokenizer the tokens are of (`trireme data` writes it)");
  const auto meta = read_meta(prefix);
  if (!meta) fail(prefix, fmt::format("is of another {}.bin (by its size), or that file is missing", prefix));
  return *meta;
}

// Empty for bytes.
fs::path tokenizer_path(const std::string& prefix, const DatasetMeta& meta) {
  if (meta.tokenizer == "byte") return {};
  if (meta.tokenizer != "sentencepiece" && meta.tokenizer != "huggingface")
    fail(prefix, fmt::format("tokenizer = {}: known are byte, sentencepiece, huggingface", meta.tokenizer));
  const fs::path name(meta.tokenizer_file);
  if (name.empty() || name != name.filename() || name == "." || name == "..")
    fail(prefix, fmt::format("tokenizer_file = {}: must be the name of a file beside it", meta.tokenizer_file));
  const fs::path path = fs::path(prefix).parent_path() / name;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) fail(prefix, fmt::format("its tokenizer {} is missing", path.string()));
  return path;
}

}  // namespace

std::unique_ptr<Tokenizer> tokenizer_of_dataset(const std::string& prefix) {
  const DatasetMeta meta = meta_of(prefix);
  const fs::path path = tokenizer_path(prefix, meta);
  auto tokenizer = meta.tokenizer == "byte"            ? byte_tokenizer()
                   : meta.tokenizer == "sentencepiece" ? sentencepiece_tokenizer(path)
                                                       : huggingface_tokenizer(path);
  if (tokenizer->vocab_size() != meta.vocab_size)
    fail(prefix, fmt::format("vocab_size = {}: its tokenizer {} has {}", meta.vocab_size,
                             path.empty() ? "byte" : path.string(), tokenizer->vocab_size()));
  SpecialTokens special = tokenizer->special();
  if (meta.eos >= 0) special.eos = meta.eos;
  if (meta.bos >= 0) special.bos = meta.bos;
  if (meta.pad >= 0) special.pad = meta.pad;
  tokenizer->set_special(special);
  return tokenizer;
}

std::vector<fs::path> tokenizer_files_of_dataset(const std::string& prefix) {
  const fs::path path = tokenizer_path(prefix, meta_of(prefix));
  if (path.empty()) return {};
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(path))
    if (entry.is_regular_file()) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

KeptTokenizer kept_tokenizer(const Tokenizer& tokenizer, const std::string& prefix) {
  const std::string name = fs::path(prefix).filename().string() + ".tokenizer";
  KeptTokenizer out;
  if (tokenizer.name() == "sentencepiece") {
    out.name = name + ".model";
    out.files.emplace_back(out.name, read_file(tokenizer.files().front()));
  } else if (tokenizer.name() == "huggingface") {
    out.name = name;
    // The first is the tokenizer itself, which the user may have called otherwise.
    for (std::size_t i = 0; i < tokenizer.files().size(); ++i)
      out.files.emplace_back(fs::path(name) / (i == 0 ? fs::path("tokenizer.json") : tokenizer.files()[i].filename()),
                             read_file(tokenizer.files()[i]));
  }
  return out;
}

}  // namespace trireme::train
