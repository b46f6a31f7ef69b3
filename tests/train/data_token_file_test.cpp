#include "train/data/token_file.h"

#include <gmock/gmock.h>

#include <cstring>

#include "train/data/dataset_meta.h"
#include "train/data_fixture.h"

namespace trireme::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TokenFile : public DataTest {
 protected:
  static std::vector<std::int64_t> all(const TokenReader& reader) {
    std::vector<std::int64_t> out(static_cast<std::size_t>(reader.num_tokens()));
    reader.read(0, out);
    return out;
  }
  std::string error(const std::string& prefix) {
    return config_error_of([&] { TokenReader(prefix, {.file = "run.toml", .key = "data.train"}); });
  }
};

// Little-endian bytes by hand, after Megatron-LM's _IndexWriter.
template <class T>
void put(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i)
    out.push_back(static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xff));
}

std::string index_bytes(std::uint8_t code, const std::vector<std::int32_t>& lengths,
                        const std::vector<std::int64_t>& pointers, const std::vector<std::int64_t>& documents) {
  std::string out("MMIDIDX\0\0", 9);
  put<std::uint64_t>(out, 1);
  put<std::uint8_t>(out, code);
  put<std::uint64_t>(out, lengths.size());
  put<std::uint64_t>(out, documents.size());
  for (auto v : lengths) put(out, v);
  for (auto v : pointers) put(out, v);
  for (auto v : documents) put(out, v);
  return out;
}

TEST_F(TokenFile, WritesMegatronsBytes) {
  write_tokens("t", {{1, 2, 300}, {}, {4}});
  EXPECT_EQ(read_file(path("t.idx")), index_bytes(8, {3, 0, 1}, {0, 6, 6}, {0, 1, 2, 3}));
  EXPECT_EQ(read_file(path("t.bin")), std::string("\x01\0\x02\0\x2c\x01\x04\0", 8));
}

TEST_F(TokenFile, ReadsBackEveryType) {
  for (TokenType type :
       {TokenType::uint8, TokenType::int8, TokenType::int16, TokenType::uint16, TokenType::int32, TokenType::int64}) {
    const TokenReader reader(write_tokens("t", {{1, 2, 127}, {}, {4}}, type));
    EXPECT_EQ(reader.num_documents(), 3);
    EXPECT_THAT(all(reader), ElementsAre(1, 2, 127, 4));
    EXPECT_EQ(reader.document_length(0), 3);
    EXPECT_EQ(reader.document_length(1), 0);
    EXPECT_EQ(reader.first_token(2), 3);
  }
}

TEST_F(TokenFile, ReadsDocumentsOfSeveralSequences) {
  // Two documents of two and one sequences: what Megatron writes with sentence splitting.
  write_file(path("t.idx"), index_bytes(4, {2, 1, 2}, {0, 8, 12}, {0, 2, 3}));
  std::string bin;
  for (std::int32_t token : {10, 11, 12, 70000, 14}) put(bin, token);
  write_file(path("t.bin"), bin);
  const TokenReader reader(path("t"));
  EXPECT_EQ(reader.num_documents(), 2);
  EXPECT_EQ(reader.document_length(0), 3);
  EXPECT_EQ(reader.document_length(1), 2);
  EXPECT_THAT(all(reader), ElementsAre(10, 11, 12, 70000, 14));
}

TEST_F(TokenFile, NothingAppearsBeforeFinish) {
  {
    TokenWriter writer(path("t"), TokenType::uint16);
    writer.add_document(std::vector<std::int32_t>{1, 2});
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(TokenFile, MissingAndTruncatedFilesAreNamed) {
  EXPECT_EQ(error(path("none")), "run.toml: data.train = " + path("none") + ": cannot read " + path("none.idx") +
                                     ": No such file or directory");
  write_tokens("t", {{1, 2, 3}, {4}});
  std::filesystem::resize_file(path("t.bin"), 7);
  EXPECT_EQ(error(path("t")),
            "run.toml: data.train = " + path("t") + ": " + path("t.bin") + " is truncated: 7 bytes, the index needs 8");
  const std::string idx = read_file(path("t.idx"));
  for (std::size_t length : {std::size_t{0}, std::size_t{20}, std::size_t{33}, idx.size() - 1}) {
    write_file(path("t.idx"), idx.substr(0, length));
    EXPECT_THAT(error(path("t")), HasSubstr(length < 34 ? "is not a Megatron index" : "t.idx is truncated"));
  }
  std::filesystem::remove(path("t.bin"));
  write_file(path("t.idx"), idx);
  EXPECT_THAT(error(path("t")), HasSubstr("t.bin"));
}

TEST_F(TokenFile, AWrongPrefixIsToldFromTheRightOne) {
  write_tokens("d_train", {{1, 2}});
  const std::string meant = "did you mean " + path("d_train") + "?";
  for (const char* wrong : {"d_train.bin", "d_train.idx", "d"}) EXPECT_THAT(error(path(wrong)), HasSubstr(meant));
  EXPECT_THAT(error(folder_.string()), HasSubstr("it is a folder"));
  write_file(path("text.txt"), "a text\n");
  EXPECT_THAT(error(path("text.txt")), HasSubstr("`trireme data " + path("text.txt") + " --out PREFIX`"));
  EXPECT_THAT(error(path("none")), ::testing::Not(HasSubstr(";")));
}

TEST_F(TokenFile, CorruptIndicesAreRefused) {
  write_tokens("t", {{1, 2, 3}, {4}});
  const auto with = [&](const std::string& idx) {
    write_file(path("t.idx"), idx);
    return error(path("t"));
  };
  EXPECT_THAT(with("MMIDXXX"), HasSubstr("no MMIDIDX header"));
  std::string version = index_bytes(8, {3, 1}, {0, 6}, {0, 1, 2});
  version[9] = 2;
  EXPECT_THAT(with(version), HasSubstr("has version 2"));
  EXPECT_THAT(with(index_bytes(7, {3, 1}, {0, 6}, {0, 1, 2})), HasSubstr("type code 7: tokens must be integers"));
  EXPECT_THAT(with(index_bytes(8, {3, 1}, {0, 4}, {0, 1, 2})), HasSubstr("does not follow the one before"));
  EXPECT_THAT(with(index_bytes(8, {3, -1}, {0, 6}, {0, 1, 2})), HasSubstr("corrupt: sequence 1 (-1 tokens"));
  EXPECT_THAT(with(index_bytes(8, {3, 1}, {0, 6}, {0, 1})), HasSubstr("don't cover its 2 sequences"));
  EXPECT_THAT(with(index_bytes(8, {3, 1}, {0, 6}, {0, 5, 2})), HasSubstr("document 0 ends at sequence 5"));
  std::string huge = index_bytes(8, {3, 1}, {0, 6}, {0, 1, 2});
  std::memset(huge.data() + 18, 0xff, 8);
  EXPECT_THAT(with(huge), HasSubstr("is truncated"));
}

TEST_F(TokenFile, VocabularyIsChecked) {
  const auto check = [&](const std::string& prefix, std::int64_t vocab) {
    return config_error_of(
        [&] { TokenReader(prefix, {.file = "run.toml", .key = "data.train"}).check_vocabulary(vocab); });
  };
  const std::string t = write_tokens("t", {{1, 2, 300}, {4}});
  EXPECT_EQ(check(t, 301), "no error");
  EXPECT_EQ(check(t, 300),
            "run.toml: data.train = " + t + ": holds token 300: model.vocab_size (300) must be at least 301");
  EXPECT_EQ(check(write_tokens("n", {{1, -2}}, TokenType::int32), 10),
            "run.toml: data.train = " + path("n") + ": holds the negative token -2");
}

TEST_F(TokenFile, AMetaFileOfAnotherBinIsIgnored) {
  const std::string t = write_tokens("t", {{1, 2, 300}, {4}});
  const auto ok = [&](std::int64_t vocab) {
    return config_error_of([&] { TokenReader(t).check_vocabulary(vocab); }) == "no error";
  };
  write_meta(t, {.max_token = 5, .bin_bytes = 8});  // wrong on purpose: shows that it is what is read
  EXPECT_TRUE(ok(6));
  write_meta(t, {.max_token = 5, .bin_bytes = 10});
  EXPECT_FALSE(ok(6));
  EXPECT_TRUE(ok(301));
}

TEST(TokenType, NarrowestThatHoldsTheVocabulary) {
  EXPECT_EQ(token_type_for(259), TokenType::uint16);
  EXPECT_EQ(token_type_for(65536), TokenType::uint16);
  EXPECT_EQ(token_type_for(65537), TokenType::int32);
}

// uint16: 600 tokens are 1200 bytes, of which 1000 are left, so that tokens from 500 on are gone. A mapped file would end
// the process by SIGBUS.
TEST_F(TokenFile, AFileThatBecomesShorterWhileItIsReadIsNamed) {
  const TokenReader reader(write_tokens("t", {std::vector<std::int32_t>(600, 7)}));
  std::filesystem::resize_file(path("t.bin"), 1000);
  std::vector<std::int64_t> out(100);
  reader.read(400, out);
  EXPECT_THAT(out, ::testing::Each(7));
  try {
    reader.read(450, out);
    FAIL();
  } catch (const RuntimeFailure& failure) {
    EXPECT_THAT(failure.what(), HasSubstr("read " + path("t.bin")));
    EXPECT_THAT(failure.what(), HasSubstr("it had 1200 bytes when it was opened and ends at byte 1000 now"));
  }
}

}  // namespace
}  // namespace trireme::train
