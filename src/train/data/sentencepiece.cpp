#include "base/errors.h"
#include "train/data/tokenizer.h"

#if TRIREME_WITH_SENTENCEPIECE

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "base/atomic_file.h"

namespace trireme::train {
namespace {

namespace sp = sentencepiece;

class SentencePieceTokenizer final : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const std::filesystem::path& model) {
    const auto status = processor_.Load(model.string());
    if (!status.ok())
      throw ConfigError(
          {.file = model.string(), .allowed = fmt::format("not a SentencePiece model: {}", status.ToString())});
  }

  std::string name() const override { return "sentencepiece"; }
  std::int64_t vocab_size() const override { return processor_.GetPieceSize(); }
  SpecialTokens special() const override {
    return {.eos = processor_.eos_id(), .bos = processor_.bos_id(), .pad = processor_.pad_id()};
  }

  void encode(std::string_view text, std::vector<std::int32_t>& out) const override {
    // BPE's time grows faster than the text's length, and no piece spans a line: long texts are cut behind line ends.
    constexpr std::size_t longest = 1 << 16;
    std::vector<int> ids;
    while (!text.empty()) {
      std::size_t n = text.size();
      if (n > longest) {
        const std::size_t end = text.rfind('\n', longest - 1);
        if (end != std::string_view::npos) n = end + 1;
      }
      check(processor_.Encode(text.substr(0, n), &ids));
      out.insert(out.end(), ids.begin(), ids.end());
      text.remove_prefix(n);
    }
  }

  std::string decode(const std::vector<std::int32_t>& tokens) const override {
    std::string text;
    std::vector<int> ids;
    for (const std::int32_t token : tokens)
      if (token >= 0 && token < processor_.GetPieceSize() && !processor_.IsControl(token)) ids.push_back(token);
    check(processor_.Decode(ids, &text));
    return text;
  }

 private:
  static void check(const sp::util::Status& status) {
    TRIREME_CHECK(status.ok(), "SentencePiece: {}", status.ToString());
  }

  sp::SentencePieceProcessor processor_;
};

// Lines at equal distances, so that the sample is the same every time and covers the whole text.
class LineSample final : public sp::SentenceIterator {
 public:
  explicit LineSample(const SentencePieceTraining& options) {
    std::int64_t total = 0;
    for (const auto& input : options.inputs) {
      std::error_code error;
      const auto size = std::filesystem::file_size(input, error);
      if (error) throw ConfigError({.file = input.string(), .allowed = "no such file, or it cannot be read"});
      total += static_cast<std::int64_t>(size);
    }
    const double share =
        total > options.sample_bytes ? static_cast<double>(options.sample_bytes) / static_cast<double>(total) : 1;
    double due = 1;
    for (const auto& input : options.inputs) {
      std::ifstream in(input, std::ios::binary);
      for (std::string line; std::getline(in, line); due += share) {
        if (due < 1) continue;
        due -= 1;
        if (line.find_first_not_of(" \t\r") != std::string::npos) lines_.push_back(std::move(line));
      }
    }
    if (lines_.empty()) throw ConfigError({.key = "--train-tokenizer", .allowed = "the inputs hold no text"});
  }

  bool done() const override { return next_ >= lines_.size(); }
  void Next() override { ++next_; }
  const std::string& value() const override { return lines_[next_]; }
  sp::util::Status status() const override { return {}; }

 private:
  std::vector<std::string> lines_;
  std::size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Tokenizer> sentencepiece_tokenizer(const std::filesystem::path& model) {
  return std::make_unique<SentencePieceTokenizer>(model);
}

void train_sentencepiece(const SentencePieceTraining& options) {
  if (options.kind != "bpe" && options.kind != "unigram")
    throw ConfigError({.key = "--model-type", .value = options.kind, .allowed = "must be bpe or unigram"});
  if (options.vocab_size < 300)
    throw ConfigError({.key = "--vocab-size",
                       .value = fmt::format("{}", options.vocab_size),
                       .allowed = "must be at least 300: 256 bytes, 4 specials and some pieces"});
  LineSample lines(options);
  std::string model;
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
  if (!status.ok())
    throw ConfigError({.key = "--vocab-size",
                       .value = fmt::format("{}", options.vocab_size),
                       .allowed = fmt::format("SentencePiece: {}", status.ToString())});
  write_file_atomically(options.model, model);
}

}  // namespace trireme::train

#else

namespace trireme::train {
namespace {

[[noreturn]] void refuse() {
  throw ConfigError(
      {.key = "--tokenizer", .allowed = "this build has no SentencePiece (Debian: libsentencepiece-dev)"});
}

}  // namespace

std::unique_ptr<Tokenizer> sentencepiece_tokenizer(const std::filesystem::path&) {
  refuse();
}
void train_sentencepiece(const SentencePieceTraining&) {
  refuse();
}

}  // namespace trireme::train

#endif
