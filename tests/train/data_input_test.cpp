// What `trireme data` takes for text, and what it says of the rest.
#include <gmock/gmock.h>

#include "train/data/documents.h"
#include "train/data/input_files.h"
#include "train/data/input_format.h"
#include "train/data_fixture.h"

namespace trireme::train {
namespace {

using namespace std::string_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string from_hex(std::string_view hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return out;
}

// "hello\n\nworld\n", packed by gzip 1.12 (-n), zstd 1.5.4 (-3), bzip2 1.0.8 and xz 5.4.1.
const char* const packed_by_gzip = "1f8b0800000000000003cb48cdc9c9e7e22acf2fca49e102005079f0a00d000000";
const char* const packed_by_bzip2 =
    "425a6839314159265359f3624b45000002c1800010064490802000310c0820d1e882409bea90f177245385090f3624b450";
const char* const packed_by_xz =
    "fd377a585a000004e6d6b4460200210116000000742fe5a301000c68656c6c6f0a0a776f726c640a000000008db172a3cf11f32e0001250d71"
    "19c4"
    "b61fb6f37d010000000004595a";
const char* const packed_by_zstd = "28b52ffd045869000068656c6c6f0a0a776f726c640ac90f278c";

class Inputs : public DataTest {
 protected:
  std::vector<std::string> documents_of(const std::string& name, const std::string& bytes, DocumentOptions options = {},
                                        SkippedDocuments* skipped = nullptr) {
    write_file(path(name), bytes);
    std::vector<std::string> out;
    for_each_document(
        path(name), options, [&](std::string_view d) { out.emplace_back(d); }, {}, skipped);
    return out;
  }
  std::string refusal(const std::string& name, const std::string& bytes, DocumentOptions options = {}) {
    return config_error_of([&] { documents_of(name, bytes, options); });
  }
};

TEST_F(Inputs, PackedTextIsUnpackedWhateverItsName) {
  for (const char* packed : {packed_by_gzip, packed_by_zstd, packed_by_bzip2, packed_by_xz}) {
    const std::string bytes = from_hex(packed);
    EXPECT_THAT(documents_of("text", bytes), ElementsAre("hello", "world")) << packed;
    // Files put one behind the other are the text of both, as the tools unpack them.
    EXPECT_THAT(documents_of("text", bytes + bytes), ElementsAre("hello", "world\nhello", "world")) << packed;
    EXPECT_THAT(refusal("text", bytes.substr(0, bytes.size() - 6)), HasSubstr("it is not complete")) << packed;
    std::string damaged = bytes;
    damaged[bytes.size() / 2] ^= 0x55;
    EXPECT_THAT(refusal("text", damaged), AllOf(HasSubstr("text: is compressed by"), HasSubstr("damaged"))) << packed;
  }
}

TEST_F(Inputs, MarksAreNoTextAndUtf16IsRead) {
  EXPECT_THAT(documents_of("text", "\xEF\xBB\xBFhello\n"), ElementsAre("hello"));
  // A line, U+20AC, U+1F600 (surrogates D83D DE00): RFC 2781.
  EXPECT_THAT(documents_of("text",
                           "\xFF\xFE"
                           "a\0\n\0\xAC\x20\x3D\xD8\0\xDE"s),
              ElementsAre("a\n\xE2\x82\xAC\xF0\x9F\x98\x80"));
  EXPECT_THAT(documents_of("text", "\xFE\xFF\0a\0\n\x20\xAC\xD8\x3D\xDE\0"s),
              ElementsAre("a\n\xE2\x82\xAC\xF0\x9F\x98\x80"));
  EXPECT_THAT(refusal("text",
                      "\xFF\xFE"
                      "a\0\n\0\x3D\xD8"
                      "b\0"s),
              HasSubstr("text:2: byte 2 of the unpacked text is half of a surrogate pair (U+D83D)"));
  EXPECT_THAT(refusal("text",
                      "\xFF\xFE"
                      "a\0b"s),
              HasSubstr("is not UTF-8"));
}

TEST_F(Inputs, WhatIsNoTextIsRefusedByName) {
  EXPECT_THAT(refusal("a.zip", "PK\3\4 and more"), HasSubstr("a.zip: is a zip archive"));
  EXPECT_THAT(refusal("a.tar", std::string(257, 'a') + "ustar\00000"), HasSubstr("is a tar archive"));
  EXPECT_THAT(refusal("a.pdf", "%PDF-1.7\n"), HasSubstr("pdftotext"));
  EXPECT_THAT(refusal("a",
                      "\x7F"
                      "ELF\2\1\1"),
              HasSubstr("is a program"));
  EXPECT_THAT(refusal("a.png", "\x89PNG\r\n\x1A\n"), HasSubstr("is an image"));
  EXPECT_THAT(refusal("a.parquet", "PAR1 and more"), HasSubstr("read_parquet"));
  EXPECT_THAT(refusal("a.safetensors", "\x40\0\0\0\0\0\0\0{\"w\": 1}"s), HasSubstr("safetensors"));
  EXPECT_THAT(refusal("a.idx", "MMIDIDX\0\0"s), HasSubstr("is the index of a token file"));
  write_file(path("t.idx"), "");
  EXPECT_THAT(refusal("t.bin", "abc"), HasSubstr("is a token file"));
  EXPECT_THAT(refusal("a", "h\0e\0l\0l\0o\0"s),
              HasSubstr("seems to be UTF-16 without a byte order mark: `iconv -f UTF-16LE"));
  EXPECT_THAT(refusal("a", "\0h\0e\0l\0l\0o"s), HasSubstr("UTF-16BE"));
  EXPECT_THAT(refusal("a", "\xFF\xFE\0\0h\0\0\0"s), HasSubstr("is UTF-32"));
  EXPECT_THAT(refusal("a", "ab\0c"s), HasSubstr("is not text: byte 2 is 0"));
}

TEST_F(Inputs, ABadByteIsNamedWithItsLineOrSkippedWithItsDocument) {
  const std::string text = "first\n\ncaf\xE9 is\nLatin-1\n\nlast\n";
  EXPECT_THAT(refusal("a.txt", text), HasSubstr("a.txt:3: byte 10 (0xE9) is not UTF-8"));
  EXPECT_THAT(refusal("a.txt", "\xEF\xBB\xBF" + text), HasSubstr("a.txt:3: byte 13 (0xE9)"));  // of the file
  EXPECT_THAT(refusal("a.txt", std::string(600, 'a') + "\n\0"s), HasSubstr("a.txt:2: byte 601 is 0"));
  SkippedDocuments skipped;
  EXPECT_THAT(documents_of("a.txt", text, {.skip_bad = true}, &skipped), ElementsAre("first", "last"));
  EXPECT_EQ(skipped.count, 1);
  EXPECT_THAT(skipped.first, ElementsAre(HasSubstr("a.txt:3: byte 10")));
  // A file that is no text counts as one; of damaged packed text what came before is kept.
  EXPECT_THAT(documents_of("a.zip", "PK\3\4", {.skip_bad = true}, &skipped), ElementsAre());
  EXPECT_EQ(skipped.count, 2);
  const std::string packed = from_hex(packed_by_gzip);
  EXPECT_THAT(documents_of("a.gz", packed.substr(0, packed.size() - 6), {.skip_bad = true}, &skipped),
              ElementsAre("hello"));
  EXPECT_EQ(skipped.count, 3);
}

TEST_F(Inputs, ALineEndOfTwoCharactersIsNoPartOfALine) {
  EXPECT_THAT(documents_of("a", "one\r\ntwo\r\n", {.rule = DocumentRule::line}), ElementsAre("one", "two"));
  EXPECT_THAT(documents_of("a", "x\r\n===\r\ny\r\n",
                           {.rule = DocumentRule::separator, .separator = "^=+$", .drop_separator = true}),
              ElementsAre("x", "y"));
}

TEST_F(Inputs, NamesOfJsonLinesChooseTheirRule) {
  const std::string line = "{\"text\": \"hello\"}\n";
  for (const char* name : {"a.jsonl", "a.ndjson", "a.JSON", "a.jsonl.gz"})
    EXPECT_THAT(documents_of(name, line), ElementsAre("hello")) << name;
  EXPECT_THAT(documents_of("a.jsonl", line, {.rule = DocumentRule::line}), ElementsAre("{\"text\": \"hello\"}"));
  EXPECT_THAT(documents_of("a.txt", line, {.rule = DocumentRule::jsonl}), ElementsAre("hello"));
  // Under another name they would be learned with their keys and quotes.
  EXPECT_THAT(refusal("a.txt", "\n" + line), HasSubstr("a.txt:2: is a JSON object: --documents jsonl"));
  EXPECT_THAT(documents_of("a.txt", line, {.rule = DocumentRule::blank_line}), ElementsAre("{\"text\": \"hello\"}"));
  EXPECT_THAT(documents_of("a.txt", "{this is no JSON}\n"), ElementsAre("{this is no JSON}"));
  EXPECT_THAT(refusal("a.jsonl", "hello\n"), HasSubstr("a.jsonl:1: is not JSON at byte 0 of the line"));
}

TEST_F(Inputs, BadJsonIsNamedWithLineByteAndReason) {
  const auto second = [&](const std::string& line) { return refusal("a.jsonl", "{\"text\": \"a\"}\n" + line); };
  EXPECT_THAT(second("{\"text\": NaN}\n"), HasSubstr("a.jsonl:2: is not JSON at byte 9 of the line: NaN is no value"));
  EXPECT_THAT(second("{\"x\": -Infinity, \"text\": \"\"}\n"), HasSubstr("byte 6 of the line: -Infinity is no value"));
  EXPECT_THAT(second("{\"text\": \"\\ud83d\"}\n"), AllOf(HasSubstr("a.jsonl:2: is not JSON"), HasSubstr("surrogate")));
  EXPECT_THAT(second("{\"text\": \"cut o"), HasSubstr("the object has no end in this line (15 bytes)"));
  EXPECT_THAT(second("{\"text\": null}\n"), HasSubstr("has no string \"text\": it is null"));
  EXPECT_THAT(second("{\"body\": \"\", \"id\": 1}\n"), HasSubstr("has no string \"text\"; it has \"body\", \"id\""));
  EXPECT_THAT(second("{\"text\": \"a\", \"n\": 1e999}\n"), HasSubstr("a.jsonl:2: is not JSON"));
  EXPECT_THAT(refusal("a.json", "[{\"text\": \"a\"},\n{\"text\": \"b\"}]\n"), HasSubstr("jq -c '.[]'"));
  SkippedDocuments skipped;
  EXPECT_THAT(
      documents_of("a.jsonl", "{\"text\": NaN}\n{\"text\": \"b\"}\n{\"text\": 5}\n", {.skip_bad = true}, &skipped),
      ElementsAre("b"));
  EXPECT_EQ(skipped.count, 2);
}

TEST_F(Inputs, ADocumentTooLongIsBadAndNotKept) {
  // Ten bytes at most: "0123456789" fits, a byte more does not, on one line or on two.
  const DocumentOptions line{.rule = DocumentRule::line, .longest_bytes = 10};
  EXPECT_THAT(documents_of("a", "0123456789\nb\n", line), ElementsAre("0123456789", "b"));
  EXPECT_THAT(refusal("a", "b\n01234567890\n", line), HasSubstr("a:2: the document is longer than 10 bytes"));
  EXPECT_THAT(refusal("a", std::string(3 << 20, 'x'), line), HasSubstr("a:1: the document is longer"));
  EXPECT_THAT(refusal("a", "0123456\n0123456\n", {.rule = DocumentRule::file, .longest_bytes = 10}),
              HasSubstr("a:2: the document"));
}

TEST_F(Inputs, FoldersAreTheirFilesAndNothingComesTwice) {
  std::filesystem::create_directories(path("d/sub"));
  std::filesystem::create_directories(path("d/.git"));
  for (const char* name : {"d/b", "d/a", "d/sub/c", "d/.hidden", "d/.git/config"}) write_file(path(name), "12");
  const InputFiles found = find_input_files({path("d")});
  EXPECT_THAT(found.files, ElementsAre(path("d/a"), path("d/b"), path("d/sub/c")));
  EXPECT_EQ(found.bytes, 6);
  EXPECT_THAT(config_error_of([&] { find_input_files({path("d"), path("d/a")}); }), HasSubstr("d/a: is named twice"));
  std::filesystem::create_symlink(path("d/a"), path("link"));
  EXPECT_THAT(config_error_of([&] { find_input_files({path("d/a"), path("link")}); }), HasSubstr("is named twice"));
  std::filesystem::create_directories(path("empty"));
  EXPECT_THAT(config_error_of([&] { find_input_files({path("empty")}); }), HasSubstr("is a folder that holds no file"));
  EXPECT_THAT(config_error_of([&] { check_is_no_input(found, path("d/./a"), "--out"); }),
              HasSubstr("is one of the inputs"));
  EXPECT_EQ(config_error_of([&] { check_is_no_input(found, path("d/z"), "--out"); }), "no error");
}

}  // namespace
}  // namespace trireme::train
