#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/json_text.h"
#include "train/data/build_dataset.h"
#include "train/data/tokenizer.h"
#include "trireme/commands.h"

namespace trireme::apps {

namespace {

struct Options {
  train::DataBuildOptions build;
  std::string documents = "blank_line";
  std::string train_tokenizer;
  train::SentencePieceTraining sentencepiece;
  bool json = false;
};

void show_progress(const train::DataBuildProgress& p) {
  // One line that is rewritten on a terminal; in a log, nothing until the end.
  if (!isatty(STDERR_FILENO)) return;
  fmt::print(stderr, "\r{:5.1f} %  {} documents, {} tokens, {:.1f} MB/s, {:.0f} s left   ", 100 * p.fraction(),
             p.num_documents, p.num_tokens, p.bytes_per_second() / 1e6, p.seconds_left());
  if (p.fraction() >= 1) fmt::print(stderr, "\n");
  std::fflush(stderr);
}

void run(const Options& options) {
  train::DataBuildOptions build = options.build;
  build.documents.rule = train::document_rule_from_name(options.documents);
  if (!options.train_tokenizer.empty()) {
    train::SentencePieceTraining training = options.sentencepiece;
    training.inputs = build.inputs;
    training.model = options.train_tokenizer;
    fmt::print(stderr, "training a SentencePiece model of {} tokens\n", training.vocab_size);
    train::train_sentencepiece(training);
    build.tokenizer = options.train_tokenizer;
  }
  const auto result = train::build_dataset(build, show_progress);
  if (options.json) {
    fmt::print("{}\n", json_text(nlohmann::json{{"train", result.train}, {"valid", result.valid}, {"seconds", result.seconds}}));
    return;
  }
  const auto line = [&](const char* side, const train::DatasetMeta& meta) {
    fmt::print("{}_{}: {} documents, {} tokens, vocabulary {} ({})\n", build.output_prefix, side, meta.num_documents,
               meta.num_tokens, meta.vocab_size, meta.tokenizer);
  };
  line("train", result.train);
  if (result.valid.num_documents > 0) line("valid", result.valid);
  fmt::print("{:.1f} s\n", result.seconds);
}

}  // namespace

void add_data_command(CLI::App& app, Context&) {
  auto options = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("data", "Text files to token files (Megatron .bin/.idx) for training and validation");
  c->add_option("inputs", options->build.inputs, "Text files")->required();
  c->add_option("--out", options->build.output_prefix, "Prefix of the files to write: PREFIX_train.bin, ...")->required();
  c->add_option("--tokenizer", options->build.tokenizer, "byte, or a SentencePiece .model")->capture_default_str();
  c->add_option("--train-tokenizer", options->train_tokenizer, "First train a SentencePiece model on the inputs, to here");
  c->add_option("--vocab-size", options->sentencepiece.vocab_size, "Of --train-tokenizer")->capture_default_str();
  c->add_option("--model-type", options->sentencepiece.kind, "Of --train-tokenizer: bpe or unigram")->capture_default_str();
  c->add_option("--documents", options->documents, "What separates documents: blank_line, line, file, separator, jsonl")
      ->capture_default_str();
  c->add_option("--separator", options->build.documents.separator, "Regular expression of a document's first line");
  c->add_flag("--drop-separator", options->build.documents.drop_separator, "That line is not part of the document");
  c->add_option("--json-key", options->build.documents.json_key, "Field of a jsonl line")->capture_default_str();
  c->add_option("--valid-fraction", options->build.valid_fraction, "Of documents, kept for validation")
      ->capture_default_str();
  c->add_option("--seed", options->build.seed, "Of the choice of validation documents")->capture_default_str();
  c->add_flag("--no-eos{false}", options->build.append_eos, "Do not end documents with the end token");
  c->add_flag("--bos", options->build.prepend_bos, "Begin documents with the begin token");
  c->add_flag("--json", options->json, "Print one JSON object");
  c->callback([options] { run(*options); });
}

}  // namespace trireme::apps
