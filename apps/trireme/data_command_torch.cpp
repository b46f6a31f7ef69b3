#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/json_text.h"
#include "train/data/build_dataset.h"
#include "train/data/input_format.h"
#include "train/data/sentencepiece_training.h"
#include "train/data/tokenizer.h"
#include "trireme/commands.h"
#include "trireme/option_rules.h"
#include "trireme/positive_number.h"
#include "trireme/standard_output.h"

namespace trireme::apps {

namespace {

struct Options {
  train::DataBuildOptions build;
  std::string documents;
  train::SentencePieceTraining tokenizer_training;
  bool json = false;
};

// One line that is rewritten on a terminal; in a log a line every ten seconds, and one a phase where that took as long.
class ProgressLines {
 public:
  ~ProgressLines() {
    if (is_open_) fmt::print(stderr, "\n");
  }
  void show(const train::DataBuildProgress& p) {
    if (p.doing != doing_) {
      doing_ = p.doing;
      last_s_ = 0;
    }
    const bool due = p.seconds - last_s_ >= 10 || (p.finished && last_s_ > 0);
    if (!on_terminal_ && !due) return;
    last_s_ = p.seconds;
    std::string text = fmt::format("{}: {:.0f} s", p.doing, p.seconds);
    if (p.num_documents > 0) text += fmt::format(", {} documents", p.num_documents);
    if (p.num_tokens > 0) text += fmt::format(", {} tokens", p.num_tokens);
    if (p.bytes_done > 0)
      text += fmt::format(", {:.1f} MB ({:.1f} MB/s)", p.bytes_done / 1e6, p.bytes_per_second() / 1e6);
    if (p.bytes_total > 0 && p.bytes_done > 0)
      text += fmt::format(", {:.1f} %, {:.0f} s left", 100 * p.fraction(), p.seconds_left());
    fmt::print(stderr, "{}{}{}", on_terminal_ ? "\r\033[K" : "", text, on_terminal_ && !p.finished ? "" : "\n");
    is_open_ = on_terminal_ && !p.finished;
    std::fflush(stderr);
  }

 private:
  bool on_terminal_ = isatty(STDERR_FILENO);
  std::string doing_;
  double last_s_ = 0;
  bool is_open_ = false;  // the line on the terminal
};

// The first signal asks for an end without half a file; the second ends the program at once.
volatile std::sig_atomic_t stop_requested = 0;
void request_stop(int) {
  stop_requested = 1;
  constexpr char text[] = "\ntrireme: stopping at the end of this document, no file is written (again: at once)\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, sizeof(text) - 1);
}
void catch_signals() {
  struct sigaction action {};
  action.sa_handler = request_stop;
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
  // Of a terminal that closes. nohup has it ignored, and then it stays so.
  struct sigaction before {};
  if (sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
}

void check_given(const CLI::App& command, const Options& options) {
  const auto given = [&](const char* name) { return command.count(name) > 0; };
  for (const char* of_training : {"--vocab-size", "--model-type"})
    if (given(of_training) && !given("--train-tokenizer"))
      throw ConfigError(
          {.key = of_training, .allowed = "is of a tokenizer that is trained: give --train-tokenizer too"});
  if (given("--train-tokenizer") && given("--tokenizer"))
    throw ConfigError({.key = "--tokenizer",
                       .value = options.build.tokenizer,
                       .allowed = "--train-tokenizer makes the tokenizer that is used: give one of the two"});
  if (given("--eos") && !options.build.append_eos)
    throw ConfigError({.key = "--eos", .value = options.build.eos, .allowed = "has no meaning with --no-eos"});
  if (options.build.valid_fraction == 0)
    refuse_given(command, {"--seed"}, "chooses documents for validation, and --valid-fraction 0 keeps none");
  const auto& rule = options.build.documents.rule;
  const auto may_be_json = [&](const std::filesystem::path& path) {
    std::error_code ignored;
    return rule == train::DocumentRule::jsonl ||
           (!rule && (train::is_named_json_lines(path) || std::filesystem::is_directory(path, ignored)));
  };
  for (const char* field : {"--json-key", "--prompt-key", "--completion-key", "--weights-key"})
    if (given(field) && std::none_of(options.build.inputs.begin(), options.build.inputs.end(), may_be_json))
      throw ConfigError({.key = field, .allowed = "is a field of JSON lines: say --documents jsonl"});
  if (given("--json-key") && given("--prompt-key"))
    throw ConfigError(
        {.key = "--json-key", .allowed = "the text is that of --prompt-key and --completion-key: leave one out"});
}

void print_side(const std::string& prefix, const train::DatasetMeta& meta) {
  print_output("{}: {} documents, {} tokens, vocabulary {} ({}){}\n", prefix, meta.num_documents, meta.num_tokens,
             meta.vocab_size, meta.tokenizer, meta.weights ? ", with weights" : "");
  if (meta.num_unknown > 0)
    print_output("{}: {} tokens are the unknown token: the tokenizer does not know their characters, which are lost\n",
               prefix, meta.num_unknown);
  if (meta.num_u2581 > 0)
    print_output("{}: {} characters U+2581 were read, which the tokenizer gives back as spaces\n", prefix,
               meta.num_u2581);
}

void run(const CLI::App& command, const Options& given) {
  Options options = given;
  train::DataBuildOptions& build = options.build;
  if (!options.documents.empty()) build.documents.rule = train::document_rule_from_name(options.documents);
  check_given(command, options);
  train::check_data_build(build);
  ProgressLines lines;
  const auto show = [&](const train::DataBuildProgress& p) { lines.show(p); };
  double tokenizer_s = 0;
  if (command.count("--train-tokenizer") > 0) {
    train::SentencePieceTraining& training = options.tokenizer_training;
    training.inputs = build.inputs;
    training.documents = build.documents;
    const auto start = std::chrono::steady_clock::now();
    train::check_sentencepiece_training(training);
    fmt::print(stderr, "training a SentencePiece model of {} tokens\n", training.vocab_size);
    train::train_sentencepiece(training, show);
    tokenizer_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    build.tokenizer = training.model.string();
  }
  catch_signals();
  build.stopped = [] { return stop_requested != 0; };
  const auto result = train::build_dataset(build, show);
  const double total_s = tokenizer_s + result.seconds;
  if (options.json) {
    const nlohmann::json out{{"train", result.train},
                             {"valid", result.valid},
                             {"skipped", {{"count", result.skipped.count}, {"first", result.skipped.first}}},
                             {"tokenizer_seconds", tokenizer_s},
                             {"seconds", total_s}};
    print_output("{}\n", json_text(out));
    return;
  }
  print_side(build.output_prefix + "_train", result.train);
  if (result.valid.num_documents > 0) print_side(build.output_prefix + "_valid", result.valid);
  if (std::error_code ignored;
      result.valid.num_documents == 0 && std::filesystem::exists(build.output_prefix + "_valid.idx", ignored))
    print_output("{0}_valid: files of before, which are left as they are and may be of another tokenizer\n",
               build.output_prefix);
  if (result.skipped.count > 0) {
    print_output("{} bad documents were skipped:\n", result.skipped.count);
    for (const std::string& why : result.skipped.first) print_output("  {}\n", why);
    if (result.skipped.count > static_cast<std::int64_t>(result.skipped.first.size())) print_output("  ...\n");
  }
  if (tokenizer_s > 0)
    print_output("{:.1f} s: {:.1f} s for the tokenizer, {:.1f} s to tokenize\n", total_s, tokenizer_s, result.seconds);
  else
    print_output("{:.1f} s\n", total_s);
}

}  // namespace

void add_data_command(CLI::App& app, Context&) {
  auto options = std::make_shared<Options>();
  auto& build = options->build;
  auto& documents = build.documents;
  CLI::App* c =
      app.add_subcommand("data", "Text files to token files (Megatron .bin/.idx) for training and validation");
  c->add_option(
       "inputs", build.inputs,
       "Files, or folders of files: text in UTF-8 or UTF-16, JSON lines, each also compressed (gzip, zstd, bzip2, xz)")
      ->required();
  c->add_option("--out", build.output_prefix, "Prefix of the files to write: PREFIX_train.bin, ...")->required();
  c->add_option("--tokenizer", build.tokenizer,
                "byte, a SentencePiece .model, or a Hugging Face tokenizer.json or the folder that holds it")
      ->capture_default_str();
  c->add_option("--eos", build.eos, "The end token by its text, where it is not the tokenizer's own");
  c->add_option("--train-tokenizer", options->tokenizer_training.model,
                "First train a SentencePiece model on the documents, to this .model");
  c->add_option("--vocab-size", options->tokenizer_training.vocab_size, "Of --train-tokenizer")
      ->capture_default_str()
      ->check(whole_number(1, 1 << 24));
  c->add_option("--model-type", options->tokenizer_training.kind, "Of --train-tokenizer: bpe or unigram")
      ->capture_default_str();
  c->add_option(
      "--documents", options->documents,
      "What a document is: blank_line, line, file, separator, jsonl (default: jsonl for .jsonl, .ndjson and .json, "
      "else blank_line)");
  c->add_option("--separator", documents.separator, "Regular expression of a document's first line");
  c->add_flag("--drop-separator", documents.drop_separator, "That line is not part of the document");
  c->add_option("--json-key", documents.json.text, "Field of a jsonl line that is the text")->capture_default_str();
  c->add_option("--prompt-key", documents.json.prompt, "Field whose text comes first and is not learned (weight 0)");
  c->add_option("--completion-key", documents.json.completion, "Field whose text follows the prompt and is learned");
  c->add_option(
      "--weights-key", documents.json.weights,
      "Field that says how much a document counts: a number, or a list of [begin, end, weight] in characters");
  c->add_flag("--skip-bad", documents.skip_bad, "Leave out documents that can't be read, and count them");
  c->add_option("--valid-fraction", build.valid_fraction, "Of documents, kept for validation")
      ->capture_default_str()
      ->check(number_between(0, 1));
  c->add_option("--seed", build.seed, "Of the choice of validation documents")
      ->capture_default_str()
      ->check(whole_number(0, UINT64_MAX));
  c->add_flag("--no-eos{false}", build.append_eos, "Do not end documents with the end token");
  c->add_flag("--bos", build.prepend_bos, "Begin documents with the begin token");
  c->add_flag("--json", options->json, "Print one JSON object");
  c->callback([c, options] { run(*c, *options); });
}

}  // namespace trireme::apps
