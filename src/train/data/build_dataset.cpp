#include "train/data/build_dataset.h"

#include <algorithm>
#include <memory>

#include <fmt/ranges.h>

#include "base/errors.h"
#include "base/rng.h"
#include "train/data/dataset_files.h"
#include "train/data/input_files.h"
#include "train/data/new_folder.h"
#include "train/data/tokenizer.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;

bool is_for_validation(std::string_view document, const DataBuildOptions& options) {
  return random_uniform(stream_key(options.seed, document), 0) < options.valid_fraction;
}

// " (such as those added to its vocabulary: <a> <b> ...)"
std::string some_of(const std::vector<std::string>& added) {
  constexpr std::size_t most = 12;
  if (added.empty()) return {};
  const std::vector<std::string> first(added.begin(), added.begin() + static_cast<std::ptrdiff_t>(std::min(most, added.size())));
  return fmt::format(" (such as those added to its vocabulary: {}{})", fmt::join(first, " "), added.size() > most ? " ..." : "");
}

void check_tokenizer(const DataBuildOptions& options, const Tokenizer& tokenizer) {
  if (options.append_eos && tokenizer.special().eos < 0)
    throw ConfigError({.key = "--tokenizer",
                       .value = options.tokenizer,
                       .allowed = fmt::format("has no end-of-text token: name one of its tokens by --eos{}, or say --no-eos",
                                              some_of(tokenizer.added_tokens()))});
  if (options.prepend_bos && tokenizer.special().bos < 0)
    throw ConfigError({.key = "--tokenizer", .value = options.tokenizer, .allowed = "has no begin-of-text token"});
}

void check_fields(const DocumentOptions& documents) {
  const JsonFields& fields = documents.json;
  if (fields.prompt.empty() != fields.completion.empty())
    throw ConfigError({.key = fields.prompt.empty() ? "--completion-key" : "--prompt-key",
                       .value = fields.prompt.empty() ? fields.completion : fields.prompt,
                       .allowed = "a prompt and a completion need each other: give --prompt-key and --completion-key"});
  const std::pair<const char*, const std::string*> named[] = {
      {"--prompt-key", &fields.prompt}, {"--completion-key", &fields.completion}, {"--weights-key", &fields.weights}};
  for (const auto& [option, field] : named)
    for (const auto& [other, same] : named) {
      if (option == other) break;
      if (!field->empty() && *field == *same)
        throw ConfigError({.key = option, .value = *field, .allowed = fmt::format("is the field of {}, too: name another", other)});
    }
  if (!fields.weights.empty() && fields.prompt.empty() && fields.weights == fields.text)
    throw ConfigError({.key = "--weights-key", .value = fields.weights, .allowed = "is the field of the text, too: name another"});
  if (documents.rule == DocumentRule::separator && documents.separator.empty())
    throw ConfigError(
        {.key = "--separator", .allowed = "is missing: --documents separator cuts at lines that match it"});
  if (documents.rule != DocumentRule::separator && (!documents.separator.empty() || documents.drop_separator))
    throw ConfigError({.key = documents.separator.empty() ? "--drop-separator" : "--separator",
                       .value = documents.separator,
                       .allowed = "has a meaning only with --documents separator"});
}

std::string name_of_source(const fs::path& input) {
  const fs::path path = input.lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

// Documents that are encoded together: a tokenizer in another process is asked once for many.
class Batch {
 public:
  static constexpr std::size_t most_bytes = std::size_t{1} << 20, most_documents = 1000;

  void add(const Document& document) {
    texts_.emplace_back(document.text);
    weights_.push_back(document.weights);
    bytes_ += document.text.size();
  }
  bool is_full() const { return bytes_ >= most_bytes || texts_.size() >= most_documents; }

  // take(text, encoding, weights)
  template <class Take>
  void encode(const Tokenizer& tokenizer, bool with_spans, Take take) {
    if (texts_.empty()) return;
    const std::vector<std::string_view> views(texts_.begin(), texts_.end());
    std::vector<Encoding> encodings = tokenizer.encode_batch(views, with_spans);
    for (std::size_t i = 0; i < views.size(); ++i) take(views[i], encodings[i], weights_[i]);
    texts_.clear();
    weights_.clear();
    bytes_ = 0;
  }

 private:
  std::vector<std::string> texts_;
  std::vector<WeightedSpans> weights_;
  std::size_t bytes_ = 0;
};

}  // namespace

void check_data_build(const DataBuildOptions& options) {
  const fs::path prefix(options.output_prefix);
  if (options.output_prefix.empty()) throw ConfigError({.key = "--out", .allowed = "a prefix is needed"});
  const std::string last = prefix.filename().string();
  if (last.empty() || last == "." || last == "..")
    throw ConfigError({.key = "--out",
                       .value = options.output_prefix,
                       .allowed = fmt::format("is a folder: expected the beginning of the files' names, such as {}",
                                              (prefix / "text").string())});
  if (!(options.valid_fraction >= 0 && options.valid_fraction < 1))
    throw ConfigError({.key = "--valid-fraction",
                       .value = fmt::format("{}", options.valid_fraction),
                       .allowed = "must lie in [0, 1)"});
  check_fields(options.documents);
  const InputFiles inputs = find_input_files(options.inputs);
  for (const char* side : {"_train", "_valid"})
    for (const char* ending : {".bin", ".idx", ".meta.json", ".weights", ".tokenizer.model"})
      check_is_no_input(inputs, options.output_prefix + side + ending, "--out");
}

DataBuildResult build_dataset(const DataBuildOptions& options, const ShowProgress& show) {
  check_data_build(options);
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(options.tokenizer, options.eos);
  check_tokenizer(options, *tokenizer);
  const InputFiles inputs = find_input_files(options.inputs);
  const NewFolder folder(fs::path(options.output_prefix).parent_path());
  const bool with_weights = options.documents.json.give_weights();
  DatasetFiles train(options.output_prefix + "_train", *tokenizer, with_weights);
  std::unique_ptr<DatasetFiles> valid;
  if (options.valid_fraction > 0)
    valid = std::make_unique<DatasetFiles>(options.output_prefix + "_valid", *tokenizer, with_weights);

  DataBuildResult result;
  ProgressReport report(show, {.bytes_total = inputs.bytes});
  Batch batch;
  std::int64_t bytes_of_done_files = 0, bytes_of_file = 0;
  const auto encode = [&] {
    batch.encode(*tokenizer, with_weights, [&](std::string_view text, const Encoding& e, const WeightedSpans& weights) {
      (valid && is_for_validation(text, options) ? *valid : train)
          .add(e, weights, text.size(), {.prepend_bos = options.prepend_bos, .append_eos = options.append_eos});
    });
    report.update([&](DataBuildProgress& p) {
      p.bytes_done = bytes_of_done_files + bytes_of_file;
      p.num_documents = train.num_documents() + (valid ? valid->num_documents() : 0);
      p.num_tokens = train.num_tokens() + (valid ? valid->num_tokens() : 0);
    });
  };
  const auto check_stopped = [&] {
    if (options.stopped && options.stopped())
      throw RuntimeFailure({.operation = "tokenize", .reason = "stopped by a signal: no file was written"});
  };
  for (const fs::path& file : inputs.files) {
    bytes_of_file = 0;
    for_each_document(
        file, options.documents,
        [&](const Document& document) {
          check_stopped();
          batch.add(document);
          if (batch.is_full()) encode();
        },
        [&](std::int64_t bytes) {
          check_stopped();
          bytes_of_file = bytes;
          report.update([&](DataBuildProgress& p) { p.bytes_done = bytes_of_done_files + bytes; });
        },
        &result.skipped);
    bytes_of_done_files += bytes_of_file;
  }
  bytes_of_file = 0;
  encode();
  check_stopped();

  const std::int64_t num_documents = train.num_documents() + (valid ? valid->num_documents() : 0);
  const std::string skipped = result.skipped.count > 0 ? fmt::format(", {} bad ones were skipped (the first: {})",
                                                                     result.skipped.count, result.skipped.first[0])
                                                       : "";
  if (num_documents == 0)
    throw ConfigError({.key = "inputs",
                       .value = options.inputs[0].string() + (options.inputs.size() > 1 ? ", ..." : ""),
                       .allowed = fmt::format("leaves no document for training: 0 documents were found{} (--documents says how a text is cut)",
                                              skipped)});
  // With a share of 5 / n, that none of n documents is chosen has a probability of 0.7 %.
  const std::string help =
      num_documents >= 10  ? fmt::format("--valid-fraction {:.2g} would do, 0 does without validation; ",
                                         std::min(0.5, 5.0 / static_cast<double>(num_documents)))
      : num_documents > 1 ? "a greater fraction leaves some, 0 does without validation; "
                           : "0 does without validation; ";
  if (train.num_documents() == 0 || (valid && valid->num_documents() == 0))
    throw ConfigError(
        {.key = "--valid-fraction",
         .value = fmt::format("{}", options.valid_fraction),
         .allowed = fmt::format(
             "leaves no document for {}: {} documents were found{} ({}--documents says how a text is cut)",
             train.num_documents() == 0 ? "training" : "validation", num_documents, skipped,
             help)});
  if (with_weights && train.sum_of_weights() == 0)
    throw ConfigError({.key = "inputs", .allowed = "every training token weighs 0: nothing would be learned"});

  std::vector<std::string> sources;
  for (const fs::path& input : options.inputs) sources.push_back(name_of_source(input));
  result.train = train.prepare(sources);
  if (valid) result.valid = valid->prepare(sources);
  train.commit();
  if (valid) valid->commit();
  report.finish();
  result.seconds = report.seconds();
  return result;
}

}  // namespace trireme::train
