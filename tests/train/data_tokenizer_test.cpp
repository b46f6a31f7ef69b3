// Tokenizers, and those that data sets keep. (Those of Hugging Face: tests/apps/data_test.py, which has Python.)
#include <gmock/gmock.h>

#include "train/data/build_dataset.h"
#include "train/data/dataset_tokenizer.h"
#include "train/data/sentencepiece_training.h"
#include "train/data/tokenizer.h"
#include "train/data_fixture.h"

namespace trireme::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string goldens = TRIREME_SOURCE_DIR "/tests/golden/tokenizers/";

// Models that put a space in front of a text and merge runs of spaces. Expected: what the Python package sentencepiece
// encodes of the whole text (tools/make_tokenizer_goldens.py).
TEST(GoldenSentencePiece, ALongDocumentIsEncodedWhole) {
  std::string text;
  for (int i = 0; i < 2000; ++i)
    text += "the cat number " + std::to_string(i) + " sat  on the mat,\n and the dog ran \n\n";
  ASSERT_EQ(text.size(), 110890u);
  const struct {
    const char* model;
    std::size_t num_tokens;
    std::int64_t digest;
  } expected[] = {{"prefix_bpe.model", 37670, 560958}, {"prefix_unigram.model", 85564, 873279}};
  for (const auto& e : expected) {
    const auto tokenizer = make_tokenizer(goldens + e.model);
    const std::string_view view = text;
    const Encoding encoding = tokenizer->encode_batch({&view, 1}, false).front();
    EXPECT_EQ(encoding.tokens.size(), e.num_tokens) << e.model;
    std::int64_t digest = 0;
    for (const std::int32_t token : encoding.tokens) digest = (digest * 31 + token) % 1000003;
    EXPECT_EQ(digest, e.digest) << e.model;
    EXPECT_EQ(encoding.num_unknown, 4000) << e.model;  // the line ends: two a line of which the first stands alone
  }
}

TEST(GoldenSentencePiece, SaysWhatItCannotRepresent) {
  const auto tokenizer = make_tokenizer(goldens + "prefix_bpe.model");
  const std::string_view text =
      "a \xe2\x96\x81"
      "cat \xc3\xa9";
  const Encoding encoding = tokenizer->encode_batch({&text, 1}, true).front();
  EXPECT_THAT(encoding.tokens, ElementsAre(62, 65, 62, 26, 62, 0));  // from the package, as above
  EXPECT_EQ(encoding.num_u2581, 1);
  EXPECT_EQ(encoding.num_unknown, 1);
  ASSERT_EQ(encoding.spans.size(), 6u);
  EXPECT_EQ(encoding.spans.back(), (ByteSpan{9, 11}));  // é behind "a ", three bytes, "cat "
}

TEST(GoldenSentencePiece, AnotherEndTokenIsOneOfItsPieces) {
  EXPECT_EQ(make_tokenizer(goldens + "prefix_bpe.model", "<s>")->special().eos, 1);
  EXPECT_THAT(config_error_of([] { make_tokenizer(goldens + "prefix_bpe.model", "<end>"); }),
              HasSubstr("--eos = <end>:"));
  EXPECT_THAT(config_error_of([] { make_tokenizer("byte", "</s>"); }), HasSubstr("--eos = </s>: the byte tokenizer"));
}

class TokenizerTraining : public DataTest {
 protected:
  // Pieces of more than one character that hold one of them.
  static int pieces_with(const Tokenizer& tokenizer, std::string_view character) {
    int n = 0;
    for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id)
      n += tokenizer.decode({id}).find(character) != std::string::npos;
    return n;
  }
};

TEST_F(TokenizerTraining, LearnsFromTheDocumentsAndNotFromTheLinesOfJson) {
  // Chinese text escaped as Python's json.dumps writes it: raw lines hold none of it, but "text" and \u everywhere.
  std::string lines;
  for (int i = 0; i < 300; ++i)
    lines += fmt::format("{{\"text\": \"\\u6c49\\u5b57\\u{:04x} word\", \"source\": \"qqqq\"}}\n", 0x4e00 + i % 100);
  write_file(path("a.jsonl"), lines);
  train_sentencepiece({.inputs = {path("a.jsonl")}, .model = path("t.model"), .vocab_size = 450});
  const auto tokenizer = make_tokenizer(path("t.model"));
  EXPECT_GT(pieces_with(*tokenizer, "\xe6\xb1\x89"), 0);  // U+6C49
  EXPECT_EQ(pieces_with(*tokenizer, "qq"), 0);
  EXPECT_EQ(pieces_with(*tokenizer, "text"), 0);
}

TEST_F(TokenizerTraining, ALongLineIsLearnedFromInParts) {
  // SentencePiece leaves out lines above its limit: this document of 200 KB is one.
  std::string line;
  while (line.size() < 200000) line += "zebra crossing ";
  write_file(path("a.txt"), line);
  train_sentencepiece({.inputs = {path("a.txt")}, .model = path("t.model"), .vocab_size = 300, .sample_bytes = 50000});
  EXPECT_GT(pieces_with(*make_tokenizer(path("t.model")), "zebra"), 0);
}

TEST_F(TokenizerTraining, TellsItsPhases) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += "a line of words " + std::to_string(i * 37 % 101) + "\n";
  write_file(path("a.txt"), text);
  std::vector<std::string> finished;
  train_sentencepiece({.inputs = {path("a.txt")}, .model = path("t.model"), .vocab_size = 300},
                      [&](const DataBuildProgress& p) {
                        if (p.finished) finished.push_back(p.doing);
                      });
  EXPECT_THAT(finished, ElementsAre("reading text for the tokenizer", "training a SentencePiece model of 300 tokens"));
}

class DatasetTokenizer : public DataTest {
 protected:
  void build(const std::string& tokenizer) {
    write_file(path("a.txt"), "the cat sat\n");
    build_dataset({.inputs = {path("a.txt")}, .output_prefix = path("d"), .tokenizer = tokenizer, .valid_fraction = 0});
  }
};

TEST_F(DatasetTokenizer, IsFoundAgainWithItsFiles) {
  build("byte");
  EXPECT_EQ(tokenizer_of_dataset(path("d_train"))->name(), "byte");
  EXPECT_THAT(tokenizer_files_of_dataset(path("d_train")), ElementsAre());
  build(goldens + "prefix_bpe.model");
  const auto tokenizer = tokenizer_of_dataset(path("d_train"));
  EXPECT_EQ(tokenizer->name(), "sentencepiece");
  EXPECT_EQ(tokenizer->vocab_size(), 90);
  EXPECT_EQ(tokenizer->special(), (SpecialTokens{.eos = 2, .bos = 1, .pad = -1}));
  EXPECT_THAT(tokenizer_files_of_dataset(path("d_train")), ElementsAre(path("d_train.tokenizer.model")));
  EXPECT_EQ(read_file(path("d_train.tokenizer.model")), read_file(goldens + "prefix_bpe.model"));
  // The one of before does not stay.
  build("byte");
  EXPECT_FALSE(std::filesystem::exists(path("d_train.tokenizer.model")));
}

TEST_F(DatasetTokenizer, ItsEndTokenIsTheDataSets) {
  write_file(path("a.txt"), "the cat sat\n");
  build_dataset({.inputs = {path("a.txt")},
                 .output_prefix = path("d"),
                 .tokenizer = goldens + "prefix_bpe.model",
                 .eos = "<s>",
                 .valid_fraction = 0});
  EXPECT_EQ(tokenizer_of_dataset(path("d_train"))->special().eos, 1);
}

TEST_F(DatasetTokenizer, ErrorsNameTheMetaFile) {
  const auto error = [&] { return config_error_of([&] { tokenizer_of_dataset(path("d_train")); }); };
  EXPECT_THAT(error(), HasSubstr("d_train.meta.json: no such file"));
  build(goldens + "prefix_bpe.model");
  std::filesystem::remove(path("d_train.tokenizer.model"));
  EXPECT_THAT(error(), HasSubstr("d_train.tokenizer.model is missing"));
  const auto change = [&](const DatasetMeta& meta) { write_meta(path("d_train"), meta); };
  DatasetMeta meta = *read_meta(path("d_train"));
  meta.tokenizer_file = "../d_train.tokenizer.model";
  change(meta);
  EXPECT_THAT(error(), HasSubstr("must be the name of a file beside it"));
  meta.tokenizer = "words";
  change(meta);
  EXPECT_THAT(error(), HasSubstr("tokenizer = words: known are"));
  meta.tokenizer = "byte";
  change(meta);
  EXPECT_THAT(error(), HasSubstr("vocab_size = 90: its tokenizer byte has 259"));
  meta.bin_bytes = 1;
  change(meta);
  EXPECT_THAT(error(), HasSubstr("is of another"));
}

}  // namespace
}  // namespace trireme::train
