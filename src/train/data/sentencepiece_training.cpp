#include "train/data/sentencepiece_training.h"

#include "base/errors.h"
#include "train/data/input_files.h"

#if TRIREME_WITH_SENTENCEPIECE

#include <sentencepiece_trainer.h>

#include <algorithm>
#include <thread>

#include "base/atomic_file.h"
#include "base/rng.h"
#include "train/data/new_folder.h"

namespace trireme::train {
namespace {

namespace sp = sentencepiece;

// SentencePiece leaves out longer lines; a document of JSON is often one.
constexpr std::size_t longest_line = 8192;

// Lines of documents, each kept with the same probability, which is halved whenever more than the wanted bytes are
// kept: the whole text counts, its length need not be known, and the sample is the same every time.
class LineSample final : public sp::SentenceIterator {
 public:
  explicit LineSample(std::int64_t wanted_bytes) : wanted_bytes_(wanted_bytes) {}

  void add_document(std::string_view text) {
    while (!text.empty()) {
      std::string_view line = text.substr(0, text.find('\n'));
      if (line.size() > longest_line) line = text.substr(0, cut(line));
      text.remove_prefix(line.size());
      if (text.starts_with('\n')) text.remove_prefix(1);
      add_line(line);
    }
  }

  bool empty() const { return lines_.empty(); }
  bool done() const override { return next_ >= lines_.size(); }
  void Next() override { ++next_; }
  const std::string& value() const override { return lines_[next_].text; }
  sp::util::Status status() const override { return {}; }

 private:
  struct Line {
    double draw;
    std::string text;
  };

  // Behind a space where there is one, else between two characters.
  static std::size_t cut(std::string_view line) {
    const std::size_t space = line.rfind(' ', longest_line - 1);
    if (space != std::string_view::npos && space > 0) return space;
    std::size_t at = longest_line;
    while (at > 1 && (static_cast<unsigned char>(line[at]) & 0xC0) == 0x80) --at;
    return at;
  }

  void add_line(std::string_view line) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    const double draw = random_uniform(key_, number_++);
    if (draw >= share_) return;
    lines_.push_back({draw, std::string(line)});
    kept_bytes_ += static_cast<std::int64_t>(line.size());
    while (kept_bytes_ > wanted_bytes_ && lines_.size() > 1) {
      share_ /= 2;
      std::erase_if(lines_, [&](const Line& kept) { return kept.draw >= share_; });
      kept_bytes_ = 0;
      for (const Line& kept : lines_) kept_bytes_ += static_cast<std::int64_t>(kept.text.size());
    }
  }

  std::int64_t wanted_bytes_, kept_bytes_ = 0;
  std::uint64_t key_ = stream_key(1, "lines of a tokenizer's sample"), number_ = 0;
  double share_ = 1;
  std::vector<Line> lines_;
  std::size_t next_ = 0;
};

}  // namespace

void check_sentencepiece_training(const SentencePieceTraining& options) {
  if (options.model.extension() != ".model")
    throw ConfigError({.key = "--train-tokenizer", .value = options.model.string(), .allowed = "must end in .model"});
  if (options.kind != "bpe" && options.kind != "unigram")
    throw ConfigError({.key = "--model-type", .value = options.kind, .allowed = "must be bpe or unigram"});
  if (options.vocab_size < 300 || options.vocab_size > 10'000'000)
    throw ConfigError(
        {.key = "--vocab-size",
         .value = fmt::format("{}", options.vocab_size),
         .allowed = "must be at least 300 (256 bytes, 4 specials and some pieces) and at most 10,000,000"});
}

void train_sentencepiece(const SentencePieceTraining& options, const ShowProgress& show) {
  check_sentencepiece_training(options);
  const InputFiles inputs = find_input_files(options.inputs);
  if (inputs.has_pipe)
    throw ConfigError(
        {.key = "--train-tokenizer",
         .allowed = "reads the inputs before they are tokenized, and a pipe can be read only once: name files"});
  check_is_no_input(inputs, options.model, "--train-tokenizer");
  const NewFolder folder(options.model.parent_path());
  check_writable(options.model);
  LineSample lines(options.sample_bytes);
  {
    ProgressReport report(show, {.doing = "reading text for the tokenizer", .bytes_total = inputs.bytes});
    std::int64_t bytes_of_done_files = 0, documents = 0;
    for (const auto& file : inputs.files) {
      std::int64_t bytes_of_file = 0;
      for_each_document(
          file, options.documents,
          [&](const Document& document) {
            lines.add_document(document.text);
            ++documents;
          },
          [&](std::int64_t bytes) {
            bytes_of_file = bytes;
            report.update([&](DataBuildProgress& p) {
              p.bytes_done = bytes_of_done_files + bytes;
              p.num_documents = documents;
            });
          });
      bytes_of_done_files += bytes_of_file;
    }
    report.finish();
  }
  if (lines.empty()) throw ConfigError({.key = "--train-tokenizer", .allowed = "the inputs hold no text"});
  std::string model;
  ProgressReport report(show,
                        {.doing = fmt::format("training a SentencePiece model of {} tokens", options.vocab_size)});
  const auto status = sp::SentencePieceTrainer::Train(
      {{"model_type", options.kind},
       {"vocab_size", fmt::format("{}", options.vocab_size)},
       {"normalization_rule_name", "identity"},
       {"remove_extra_whitespaces", "false"},
       {"add_dummy_prefix", "false"},
       {"allow_whitespace_only_pieces", "true"},
       {"byte_fallback", "true"},
       {"split_digits", "true"},
       {"character_coverage", "0.9999"},
       {"max_sentence_length", "65536"},
       {"hard_vocab_limit", "true"},
       {"pad_id", "3"},
       {"num_threads", fmt::format("{}", std::max(1u, std::thread::hardware_concurrency()))},
       {"minloglevel", "2"}},
      &lines, &model);
  if (!status.ok()) {
    // "Internal: ./src/trainer_interface.cc(660) [(condition)] Vocabulary size too high (5000). Please set it to ..."
    std::string why = status.ToString();
    if (const auto end = why.rfind("] "); end != std::string::npos) why = why.substr(end + 2);
    throw ConfigError({.key = "--vocab-size",
                       .value = fmt::format("{}", options.vocab_size),
                       .allowed = fmt::format("SentencePiece: {}", why)});
  }
  report.finish();
  write_file_atomically(options.model, model);
}

}  // namespace trireme::train

#else

namespace trireme::train {

void check_sentencepiece_training(const SentencePieceTraining&) {
  throw ConfigError(
      {.key = "--train-tokenizer", .allowed = "this build has no SentencePiece (Debian: libsentencepiece-dev)"});
}
void train_sentencepiece(const SentencePieceTraining& options, const ShowProgress&) {
  check_sentencepiece_training(options);
}

}  // namespace trireme::train

#endif
