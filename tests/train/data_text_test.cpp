#include <gmock/gmock.h>

#include <set>

#include "train/data/build_dataset.h"
#include "train/data/documents.h"
#include "train/data/sentencepiece_training.h"
#include "train/data/sequence_source.h"
#include "train/data/tokenizer.h"
#include "train/data_fixture.h"

namespace trireme::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Documents : public DataTest {
 protected:
  std::vector<std::string> split(const std::string& text, DocumentOptions options) {
    write_file(path("text"), text);
    std::vector<std::string> out;
    for_each_document(path("text"), options, [&](std::string_view d) { out.emplace_back(d); });
    return out;
  }
};

TEST_F(Documents, BlankLines) {
  EXPECT_THAT(split("\n\na\nb\n\n \t\n c\nd", {}), ElementsAre("a\nb", " c\nd"));
  EXPECT_THAT(split("a\r\nb\r\n\r\nc\r\n", {}), ElementsAre("a\r\nb", "c"));
  EXPECT_THAT(split("", {}), ElementsAre());
  EXPECT_THAT(split(" \n\n", {}), ElementsAre());
}

TEST_F(Documents, LinesAndFiles) {
  EXPECT_THAT(split("a\n\nb c\n", {.rule = DocumentRule::line}), ElementsAre("a", "b c"));
  EXPECT_THAT(split("a\n\nb c\n", {.rule = DocumentRule::file}), ElementsAre("a\n\nb c"));
}

TEST_F(Documents, Separators) {
  const std::string text = "Aam\n   a measure\n\n   of wine\nAard\n   see\n";
  EXPECT_THAT(split(text, {.rule = DocumentRule::separator, .separator = "^\\S"}),
              ElementsAre("Aam\n   a measure\n\n   of wine", "Aard\n   see"));
  EXPECT_THAT(split("x\n===\ny\n", {.rule = DocumentRule::separator, .separator = "^=+$", .drop_separator = true}),
              ElementsAre("x", "y"));
  EXPECT_THAT(config_error_of([&] { split("x", {.rule = DocumentRule::separator, .separator = "("}); }),
              HasSubstr("--separator = (: not a regular expression"));
}

TEST_F(Documents, SeparatorsTakeTimeInProportionToTheText) {
  // A search that goes back over its choices tries the 2^59 ways to cut sixty letters into groups before it gives up; one
  // that calls itself once a character needs a frame for each of ten million.
  EXPECT_THAT(split(std::string(60, 'a') + "!\n", {.rule = DocumentRule::separator, .separator = "^(a+)+$"}),
              ElementsAre(std::string(60, 'a') + "!"));
  EXPECT_EQ(split(std::string(10000000, 'a') + "\nb\nc\n", {.rule = DocumentRule::separator, .separator = "^(a|b)+$"}).size(), 2u);
}

TEST_F(Documents, Jsonl) {
  EXPECT_THAT(split("{\"text\": \"a\\nb\", \"id\": 1}\n\n{\"text\": \"c\"}", {.rule = DocumentRule::jsonl}),
              ElementsAre("a\nb", "c"));
  EXPECT_THAT(config_error_of([&] { split("{\"text\": \"a\"}\n{\"body\": 1}\n", {.rule = DocumentRule::jsonl}); }),
              HasSubstr("text:2: has no string \"text\""));
  EXPECT_THAT(config_error_of([&] { split("nonsense\n", {.rule = DocumentRule::jsonl}); }),
              HasSubstr("text:1: is not JSON at byte 1 of the line"));
  EXPECT_THAT(config_error_of([&] { split("[1]\n", {.rule = DocumentRule::jsonl}); }),
              HasSubstr("text:1: expected a JSON object on each line, and this is a list"));
}

TEST_F(Documents, LinesThatSpanReadBlocksStayWhole) {
  // 3 MiB and a bit, lines of 1,000,003 characters: every one crosses a block of 1 MiB or its end.
  std::string text;
  for (char c : {'a', 'b', 'c', 'd'}) text += std::string(1000003, c) + "\n";
  const auto documents = split(text, {.rule = DocumentRule::line});
  ASSERT_EQ(documents.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(documents[i], std::string(1000003, static_cast<char>('a' + i)));
}

TEST_F(Documents, UnknownRulesAndFiles) {
  EXPECT_THAT(config_error_of([] { document_rule_from_name("page"); }),
              HasSubstr("--documents = page: must be one of"));
  EXPECT_THAT(config_error_of([&] { for_each_document(path("none"), {}, [](std::string_view) {}); }),
              HasSubstr("none: no such file"));
}

std::vector<std::int32_t> encode(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> out;
  tokenizer.encode(text, out);
  return out;
}

TEST(ByteTokenizer, IsLossless) {
  const auto tokenizer = byte_tokenizer();
  std::string all;
  for (int c = 0; c < 256; ++c) all.push_back(static_cast<char>(c));
  const auto tokens = encode(*tokenizer, all);
  for (int c = 0; c < 256; ++c) EXPECT_EQ(tokens[static_cast<std::size_t>(c)], c);
  EXPECT_EQ(tokenizer->decode(tokens), all);
  EXPECT_EQ(tokenizer->decode({72, 105, 256}), "Hi");
  EXPECT_EQ(tokenizer->vocab_size(), 259);
  EXPECT_EQ(tokenizer->special().eos, 256);
}

class SentencePiece : public DataTest {};

TEST_F(SentencePiece, TrainsAndIsLossless) {
  std::string text;
  for (int i = 0; i < 2000; ++i)
    text += "the quick brown fox number " + std::to_string(i) + " jumps over the lazy dog\n  and an indented line\n";
  write_file(path("text"), text);
  train_sentencepiece({.inputs = {path("text")}, .model = path("t.model"), .vocab_size = 320});
  const auto tokenizer = make_tokenizer(path("t.model"));
  EXPECT_EQ(tokenizer->vocab_size(), 320);
  EXPECT_GE(tokenizer->special().eos, 0);
  const std::string sample = "  the lazy  fox\n\n\tjumps \xc3\xa9\xe6\xbc\xa2 over\r\nthe dog \n";
  EXPECT_EQ(tokenizer->decode(encode(*tokenizer, sample)), sample);
  // Text like the training text takes fewer tokens than bytes: 60 pieces of more than a byte are in the vocabulary.
  EXPECT_LT(encode(*tokenizer, text.substr(0, 1000)).size(), 750u);
  // No piece spans a line's end and nothing is put in front of a text: the same tokens as line by line.
  std::vector<std::int32_t> by_line;
  for (std::size_t at = 0, end; at < text.size(); at = end + 1) {
    end = text.find('\n', at);
    tokenizer->encode(text.substr(at, end + 1 - at), by_line);
  }
  EXPECT_EQ(encode(*tokenizer, text), by_line);
}

TEST_F(SentencePiece, BadModelsAndSizes) {
  write_file(path("bad.model"), "this is no model");
  EXPECT_THAT(config_error_of([&] { make_tokenizer(path("bad.model")); }), HasSubstr("bad.model: not a SentencePiece"));
  EXPECT_THAT(config_error_of([&] { make_tokenizer(path("none.model")); }),
              HasSubstr("none.model: not a SentencePiece"));
  EXPECT_THAT(config_error_of([] { make_tokenizer("words"); }), HasSubstr("--tokenizer = words: must be \"byte\""));
  write_file(path("text"), "too little text\n");
  EXPECT_THAT(config_error_of([&] {
                train_sentencepiece({.inputs = {path("text")}, .model = path("t.model"), .vocab_size = 8000});
              }),
              HasSubstr("--vocab-size = 8000: SentencePiece"));
  EXPECT_THAT(config_error_of([&] { train_sentencepiece({.inputs = {path("text")}, .model = path("t.model"), .vocab_size = 10}); }),
              HasSubstr("must be at least 300"));
}

class BuildDataset : public DataTest {
 protected:
  static std::vector<std::string> documents_of(const std::string& prefix) {
    const TokenReader reader(prefix);
    std::vector<std::string> out;
    for (std::int64_t d = 0; d < reader.num_documents(); ++d) {
      std::vector<std::int64_t> tokens(static_cast<std::size_t>(reader.document_length(d)));
      reader.read(reader.first_token(d), tokens);
      EXPECT_EQ(tokens.back(), 256);
      out.push_back(byte_tokenizer()->decode({tokens.begin(), tokens.end()}));
    }
    return out;
  }
};

TEST_F(BuildDataset, SplitsByTextAndDescribesWhatItWrote) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "document " + std::to_string(i % 200) + "\n";  // each text twice
  write_file(path("a.txt"), text);
  write_file(path("b.txt"), "last\n");
  DataBuildProgress last;
  const auto result = build_dataset({.inputs = {path("a.txt"), path("b.txt")},
                                     .output_prefix = path("out/d"),
                                     .documents = {.rule = DocumentRule::line},
                                     .valid_fraction = 0.25},
                                    [&](const DataBuildProgress& p) { last = p; });
  const auto train = documents_of(path("out/d_train")), valid = documents_of(path("out/d_valid"));
  EXPECT_EQ(train.size() + valid.size(), 401u);
  // 200 texts at 0.25: mean 50, standard deviation sqrt(200 * 0.25 * 0.75) = 6.1.
  const std::set<std::string> train_texts(train.begin(), train.end()), valid_texts(valid.begin(), valid.end());
  EXPECT_NEAR(static_cast<double>(valid_texts.size()), 50, 31);
  for (const auto& t : valid_texts) EXPECT_FALSE(train_texts.contains(t)) << t << " is on both sides";
  EXPECT_EQ(train_texts.size() + valid_texts.size(), 201u);

  EXPECT_EQ(result.train.num_documents, static_cast<std::int64_t>(train.size()));
  EXPECT_EQ(result.train.max_token, 256);
  EXPECT_EQ(result.train.vocab_size, 259);
  EXPECT_THAT(result.train.sources, ElementsAre("a.txt", "b.txt"));
  EXPECT_EQ(read_meta(path("out/d_train")), result.train);
  EXPECT_EQ(last.bytes_done, last.bytes_total);
  EXPECT_EQ(last.num_documents, 401);
  // Bytes of the texts without line ends, and one end-of-text token each.
  EXPECT_EQ(last.num_tokens, static_cast<std::int64_t>(text.size()) - 400 + 4 + 401);
}

TEST_F(BuildDataset, IsTheSameEveryTimeAndForAnyInputOrder) {
  write_file(path("a.txt"), "one\ntwo\nthree\nfour\n");
  write_file(path("b.txt"), "five\nsix\nseven\neight\n");
  const auto build = [&](std::vector<std::filesystem::path> inputs, const char* name) {
    build_dataset({.inputs = inputs,
                   .output_prefix = path(name),
                   .documents = {.rule = DocumentRule::line},
                   .valid_fraction = 0.4});
    const auto valid = documents_of(path(name) + "_valid");
    return std::set<std::string>(valid.begin(), valid.end());
  };
  EXPECT_EQ(build({path("a.txt"), path("b.txt")}, "x"), build({path("b.txt"), path("a.txt")}, "y"));
  const std::string first = read_file(path("x_train.bin"));
  build({path("a.txt"), path("b.txt")}, "x");
  EXPECT_EQ(read_file(path("x_train.bin")), first);
}

TEST_F(BuildDataset, Errors) {
  write_file(path("a.txt"), "one document\n");
  const auto build = [&](DataBuildOptions options) {
    options.output_prefix = path("o");
    return config_error_of([&] { build_dataset(options); });
  };
  EXPECT_THAT(build({.inputs = {path("none.txt")}}), HasSubstr("none.txt: no such file"));
  EXPECT_THAT(build({}), HasSubstr("inputs: at least one text file"));
  EXPECT_THAT(build({.inputs = {path("a.txt")}, .tokenizer = "gpt"}), HasSubstr("--tokenizer = gpt"));
  EXPECT_THAT(build({.inputs = {path("a.txt")}, .valid_fraction = 1}), HasSubstr("--valid-fraction = 1: must lie in"));
  EXPECT_THAT(build({.inputs = {path("a.txt")}, .valid_fraction = 0.5}), HasSubstr("leaves no document for"));
  write_file(path("empty.txt"), "\n \n");
  EXPECT_THAT(build({.inputs = {path("empty.txt")}}), HasSubstr("empty.txt: leaves no document for training: 0 documents"));
  // Nothing is left behind by a failed build.
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    EXPECT_EQ(entry.path().extension(), ".txt") << entry.path();
  EXPECT_EQ(build({.inputs = {path("a.txt")}, .valid_fraction = 0}), "no error");
  EXPECT_FALSE(std::filesystem::exists(path("o_valid.bin")));
}

TEST_F(BuildDataset, SentencePieceModelIsKeptBesideTheTokens) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += "a line of words " + std::to_string(i * 37 % 101) + "\n";
  write_file(path("a.txt"), text);
  train_sentencepiece({.inputs = {path("a.txt")}, .model = path("t.model"), .vocab_size = 300});
  const auto result = build_dataset({.inputs = {path("a.txt")},
                                     .output_prefix = path("d"),
                                     .tokenizer = path("t.model"),
                                     .documents = {.rule = DocumentRule::file},
                                     .valid_fraction = 0});
  EXPECT_EQ(result.train.tokenizer_file, "d_train.tokenizer.model");
  const auto tokenizer = make_tokenizer(path("d_train.tokenizer.model"));
  const TokenReader reader(path("d_train"));
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(reader.num_tokens()));
  reader.read(0, tokens);
  EXPECT_EQ(tokens.back(), tokenizer->special().eos);
  EXPECT_EQ(tokenizer->decode({tokens.begin(), tokens.end()}) + "\n", text);
}

}  // namespace
}  // namespace trireme::train
