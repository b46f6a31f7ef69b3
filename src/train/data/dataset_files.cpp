#include "train/data/dataset_files.h"

#include <algorithm>
#include <filesystem>

namespace trireme::train {
namespace {

namespace fs = std::filesystem;

}  // namespace

DatasetFiles::DatasetFiles(std::string prefix, const Tokenizer& tokenizer, bool with_weights)
    : prefix_(std::move(prefix)),
      tokenizer_(tokenizer),
      type_(token_type_for(tokenizer.vocab_size())),
      tokens_(prefix_, type_),
      kept_(kept_tokenizer(tokenizer, prefix_)) {
  if (with_weights) weights_.emplace(prefix_);
}

void DatasetFiles::add(const Encoding& encoding, const WeightedSpans& weights, std::size_t text_bytes,
                       Specials specials) {
  document_.clear();
  if (specials.prepend_bos) document_.push_back(tokenizer_.special().bos);
  document_.insert(document_.end(), encoding.tokens.begin(), encoding.tokens.end());
  if (specials.append_eos) document_.push_back(tokenizer_.special().eos);
  tokens_.add_document(document_);
  num_unknown_ += encoding.num_unknown;
  num_u2581_ += encoding.num_u2581;
  if (!weights_) return;
  document_weights_.clear();
  if (specials.prepend_bos) document_weights_.push_back(weight_of(weights, {0, 1}));
  for (const ByteSpan& span : encoding.spans) document_weights_.push_back(weight_of(weights, span));
  if (specials.append_eos) document_weights_.push_back(weight_of(weights, {text_bytes - 1, text_bytes}));
  weights_->add(document_weights_);
}

DatasetMeta DatasetFiles::prepare(const std::vector<std::string>& sources) {
  tokens_.prepare();
  if (weights_) weights_->prepare();
  const fs::path folder = fs::path(prefix_).parent_path();
  const auto put = [&](const fs::path& file, std::string_view content) {
    beside_.push_back(std::make_unique<AtomicFile>(file));
    beside_.back()->write(content);
    beside_.back()->sync();
  };
  if (tokenizer_.name() == "huggingface") tokenizer_folder_.emplace(folder / kept_.name);
  for (const auto& [name, content] : kept_.files) put(folder / name, content);
  const SpecialTokens& special = tokenizer_.special();
  DatasetMeta meta{.tokenizer = tokenizer_.name(),
                   .tokenizer_file = kept_.name,
                   .vocab_size = tokenizer_.vocab_size(),
                   .eos = special.eos,
                   .bos = special.bos,
                   .pad = special.pad,
                   .num_documents = tokens_.num_documents(),
                   .num_tokens = tokens_.num_tokens(),
                   .max_token = tokens_.max_token(),
                   .bin_bytes = tokens_.num_tokens() * size_of(type_),
                   .num_unknown = num_unknown_,
                   .num_u2581 = num_u2581_,
                   .weights = weights_.has_value(),
                   .sources = sources};
  put(prefix_ + ".meta.json", meta_text(meta));
  return meta;
}

void DatasetFiles::commit() {
  // The index last: files of which it is new are complete.
  for (const auto& file : beside_) file->commit();
  if (weights_) weights_->commit();
  remove_what_is_not_kept();
  tokens_.commit();
}

void DatasetFiles::remove_what_is_not_kept() const {
  std::error_code ignored;
  if (!weights_) fs::remove(prefix_ + ".weights", ignored);
  const std::string model = prefix_ + ".tokenizer.model", folder = prefix_ + ".tokenizer";
  if (tokenizer_.name() != "sentencepiece") fs::remove(model, ignored);
  if (!fs::is_directory(folder, ignored)) return;
  // Only what a data set keeps there: other files are somebody's.
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                           "chat_template.jinja", "chat_template.json", "generation_config.json"}) {
    const fs::path file = fs::path(folder).filename() / name;
    const bool kept =
        std::any_of(kept_.files.begin(), kept_.files.end(), [&](const auto& f) { return f.first == file; });
    if (!kept) fs::remove(fs::path(folder) / name, ignored);
  }
  fs::remove(folder, ignored);  // where it is empty
}

}  // namespace trireme::train
