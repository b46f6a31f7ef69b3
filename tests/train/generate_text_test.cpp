#include "train/generate/text_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/utf8.h"
#include "train/generate/utf8_text.h"

namespace trireme::train {
namespace {

using testing::ElementsAre;

constexpr const char* replaced = "\xEF\xBF\xBD";

// Unicode 15, table 3-8: the maximal subparts of an ill-formed sequence, each one U+FFFD. 61 F1 80 80 E1 80 C2 62 80 63
// 80 BF 64 gives a, three, b, one, c, two, d.
TEST(Utf8Text, ReplacesMaximalSubparts) {
  const std::string r = replaced;
  const Utf8Text text = utf8_text("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64", false);
  EXPECT_EQ(text.text, "a" + r + r + r + "b" + r + "c" + r + r + "d");
  EXPECT_EQ(text.taken, 13u);
  // Table 3-9: surrogates, overlong forms and what lies beyond U+10FFFF are ill-formed byte by byte.
  EXPECT_EQ(utf8_text("\xED\xA0\x80", true).text, r + r + r);
  EXPECT_EQ(utf8_text("\xC0\xAF", true).text, r + r);
  EXPECT_EQ(utf8_text("\xF4\x91", true).text, r + r);
}

TEST(Utf8Text, LeavesTheBeginningOfACharacter) {
  const std::string text = "e\xCC\x81\xE2\x82\xAC\xF0\x9F\x98\x80";  // a combined e, the euro sign, a face
  for (std::size_t n = 0; n <= text.size(); ++n) {
    const Utf8Text part = utf8_text(text.substr(0, n), false);
    EXPECT_EQ(part.text, text.substr(0, part.taken));
    EXPECT_LT(n - part.taken, 4u);
    EXPECT_EQ(first_not_utf8(part.text), part.text.size());
    EXPECT_EQ(first_not_utf8(utf8_text(text.substr(0, n), true).text), utf8_text(text.substr(0, n), true).text.size());
  }
  EXPECT_EQ(utf8_text(text, false).text, text);
  EXPECT_EQ(utf8_text("\xE2\x82", false).taken, 0u);
  EXPECT_EQ(utf8_text("\xE2\x82", true).text, replaced);
}

TEST(Utf8Text, ControlCharactersAreMadeVisible) {
  EXPECT_EQ(printable("a\tb\n\x1b[31mred\r\x7f"), "a\tb\n\\x1b[31mred\\x0d\\x7f");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m \xC2\xA0\xC3\xA9"),
            "\\x9b31m \xC2\xA0\xC3\xA9");  // U+009B is a control, U+00A0 is none
}

std::vector<std::string> pieces(const std::string& bytes, const std::vector<std::int32_t>& prompt = {}) {
  const auto tokenizer = byte_tokenizer();
  TokenText text(*tokenizer, prompt);
  std::vector<std::string> out;
  for (const unsigned char byte : bytes) out.push_back(text.add(byte));
  out.push_back(text.finish());
  return out;
}

TEST(TokenText, HoldsBackIncompleteCharacters) {
  EXPECT_THAT(pieces("a\xC3\xA9"
                     "b"),
              ElementsAre("a", "", "\xC3\xA9", "b", ""));
  EXPECT_THAT(pieces("\xF0\x9F\x98\x80"), ElementsAre("", "", "", "\xF0\x9F\x98\x80", ""));
  EXPECT_THAT(pieces("\xE2\x82"), ElementsAre("", "", replaced));
  EXPECT_THAT(pieces("\xC3"
                     "a"),
              ElementsAre("", std::string(replaced) + "a", ""));
}

// A prompt that ends inside of a character: what follows completes it.
TEST(TokenText, BehindAPrompt) {
  EXPECT_THAT(pieces("bc", {'a'}), ElementsAre("b", "c", ""));
  EXPECT_THAT(pieces("x", {256}), ElementsAre("x", ""));
}

// Longer than the window of tokens, any bytes: the text is that of all bytes at once.
TEST(TokenText, TheWholeIsThatOfAllTokens) {
  std::string bytes;
  for (int i = 0; i < 4000; ++i) bytes.push_back(static_cast<char>((i * i * 31 + i / 7 * 101) % 256));
  std::string joined;
  for (const std::string& piece : pieces(bytes)) joined += piece;
  EXPECT_EQ(joined, utf8_text(bytes, true).text);
}

// Decodes "_x" pieces with a space where it is not the first, as SentencePiece does with a dummy prefix.
class Words final : public Tokenizer {
 public:
  Words() : Tokenizer({.name = "words", .vocab_size = 3}) {}
  std::vector<Encoding> encode_batch(std::span<const std::string_view>, bool) const override { return {}; }
  std::string decode(const std::vector<std::int32_t>& tokens) const override {
    std::string out;
    for (const std::int32_t token : tokens)
      out += (out.empty() ? "" : " ") + std::string(1, static_cast<char>('a' + token));
    most_tokens = std::max(most_tokens, tokens.size());
    return out;
  }
  mutable std::size_t most_tokens = 0;
};

TEST(TokenText, KeepsWhatDependsOnTheTokensBefore) {
  const Words words;
  TokenText begins(words, {}), follows(words, {2});
  EXPECT_EQ(begins.add(0), "a");
  EXPECT_EQ(begins.add(1), " b");
  EXPECT_EQ(follows.add(0), " a");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(follows.add(1), " b");
  EXPECT_LE(words.most_tokens, 12u) << "the whole text is decoded again";
}

std::vector<std::string> through(const std::vector<std::string>& stops, const std::vector<std::string>& texts,
                                 bool& stopped) {
  StopTexts filter(stops);
  std::vector<std::string> out;
  for (const std::string& text : texts) out.push_back(filter.add(text));
  out.push_back(filter.finish());
  stopped = filter.stopped();
  return out;
}

TEST(StopTexts, EndBeforeTheFirstOne) {
  bool stopped = false;
  EXPECT_THAT(through({"END"}, {"ab E", "N", "Dcd", "e"}, stopped), ElementsAre("ab ", "", "", "", ""));
  EXPECT_TRUE(stopped);
  EXPECT_THAT(through({"END", "b"}, {"abEND"}, stopped), ElementsAre("a", ""));
  EXPECT_TRUE(stopped);
}

TEST(StopTexts, GiveBackWhatWasNone) {
  bool stopped = true;
  EXPECT_THAT(through({"END"}, {"xEN", "EN", "O", "E"}, stopped), ElementsAre("x", "EN", "ENO", "", "E"));
  EXPECT_FALSE(stopped);
  EXPECT_THAT(through({}, {"all", " of it"}, stopped), ElementsAre("all", " of it", ""));
}

}  // namespace
}  // namespace trireme::train
