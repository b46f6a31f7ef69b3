#include "train/data/build_dataset.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>

#include "base/atomic_file.h"
#include "base/errors.h"
#include "base/rng.h"
#include "train/data/token_file.h"
#include "train/data/tokenizer.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool is_for_validation(std::string_view document, const DataBuildOptions& options) {
  return random_uniform(stream_key(options.seed, document), 0) < options.valid_fraction;
}

DatasetMeta describe(const DataBuildOptions& options, const Tokenizer& tokenizer, const TokenWriter& writer,
                     TokenType type) {
  DatasetMeta meta{.tokenizer = tokenizer.name(),
                   .vocab_size = tokenizer.vocab_size(),
                   .eos = tokenizer.special().eos,
                   .num_documents = writer.num_documents(),
                   .num_tokens = writer.num_tokens(),
                   .max_token = writer.max_token(),
                   .bin_bytes = writer.num_tokens() * size_of(type)};
  for (const fs::path& input : options.inputs) meta.sources.push_back(input.filename().string());
  return meta;
}

void check(const DataBuildOptions& options, const Tokenizer& tokenizer) {
  if (options.inputs.empty()) throw ConfigError({.key = "inputs", .allowed = "at least one text file is needed"});
  if (options.output_prefix.empty()) throw ConfigError({.key = "--out", .allowed = "a prefix is needed"});
  if (!(options.valid_fraction >= 0 && options.valid_fraction < 1))
    throw ConfigError({.key = "--valid-fraction",
                       .value = fmt::format("{}", options.valid_fraction),
                       .allowed = "must lie in [0, 1)"});
  if (options.append_eos && tokenizer.special().eos < 0)
    throw ConfigError({.key = "--tokenizer", .value = options.tokenizer, .allowed = "has no end-of-text token"});
  if (options.prepend_bos && tokenizer.special().bos < 0)
    throw ConfigError({.key = "--tokenizer", .value = options.tokenizer, .allowed = "has no begin-of-text token"});
}

}  // namespace

DataBuildResult build_dataset(const DataBuildOptions& options,
                              const std::function<void(const DataBuildProgress&)>& progress) {
  const auto start = Clock::now();
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(options.tokenizer);
  check(options, *tokenizer);
  DataBuildProgress state;
  for (const fs::path& input : options.inputs) {
    std::error_code error;
    const auto size = fs::file_size(input, error);
    if (error) throw ConfigError({.file = input.string(), .allowed = "no such file, or it cannot be read"});
    state.bytes_total += static_cast<std::int64_t>(size);
  }
  if (const auto folder = fs::path(options.output_prefix).parent_path(); !folder.empty())
    fs::create_directories(folder);

  const TokenType type = token_type_for(tokenizer->vocab_size());
  TokenWriter train(options.output_prefix + "_train", type);
  std::unique_ptr<TokenWriter> valid;
  if (options.valid_fraction > 0) valid = std::make_unique<TokenWriter>(options.output_prefix + "_valid", type);

  std::vector<std::int32_t> tokens;
  const auto take = [&](std::string_view document) {
    tokens.clear();
    if (options.prepend_bos) tokens.push_back(tokenizer->special().bos);
    tokenizer->encode(document, tokens);
    if (options.append_eos) tokens.push_back(tokenizer->special().eos);
    (valid && is_for_validation(document, options) ? *valid : train).add_document(tokens);
    ++state.num_documents;
    state.num_tokens += static_cast<std::int64_t>(tokens.size());
  };
  double last_report = -1;
  std::int64_t bytes_of_done_files = 0;
  const auto report = [&](std::int64_t bytes_of_file, bool always) {
    state.bytes_done = bytes_of_done_files + bytes_of_file;
    state.seconds = seconds_since(start);
    if (!progress || (!always && state.seconds - last_report < 0.5)) return;
    last_report = state.seconds;
    progress(state);
  };
  for (const fs::path& input : options.inputs) {
    for_each_document(input, options.documents, take, [&](std::int64_t bytes) { report(bytes, false); });
    bytes_of_done_files += static_cast<std::int64_t>(fs::file_size(input));
  }
  report(0, true);

  if (train.num_documents() == 0 || (valid && valid->num_documents() == 0))
    throw ConfigError(
        {.key = state.num_documents == 0 ? "inputs" : "--valid-fraction",
         .value = state.num_documents == 0 ? "" : fmt::format("{}", options.valid_fraction),
         .allowed = fmt::format("leaves no document for {}: {} documents were found (--documents says how "
                                "a text is cut)",
                                train.num_documents() == 0 ? "training" : "validation", state.num_documents)});
  DataBuildResult result;
  const auto describe_files = [&](const TokenWriter& writer, const std::string& prefix) {
    DatasetMeta meta = describe(options, *tokenizer, writer, type);
    if (tokenizer->name() != "byte") {
      // Beside the tokens, so that they can be turned back into text wherever the files are moved.
      meta.tokenizer_file = fs::path(prefix).filename().string() + ".tokenizer.model";
      std::ifstream model(options.tokenizer, std::ios::binary);
      write_file_atomically(prefix + ".tokenizer.model", std::string(std::istreambuf_iterator<char>(model), {}));
    }
    write_meta(prefix, meta);
    return meta;
  };
  // Whatever needs room on the disk comes before the first file gets its name. A meta file whose .bin is another one
  // is ignored by readers.
  train.prepare();
  if (valid) valid->prepare();
  result.train = describe_files(train, options.output_prefix + "_train");
  if (valid) result.valid = describe_files(*valid, options.output_prefix + "_valid");
  train.commit();
  if (valid) valid->commit();
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace trireme::train
