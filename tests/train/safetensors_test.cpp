#include "train/checkpoint/safetensors.h"

#include <fstream>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "train/scratch_folder.h"

namespace trireme::train {
namespace {

using testing::HasSubstr;

class Safetensors : public testing::Test {
 protected:
  ScratchFolder scratch_;
  std::filesystem::path path_ = scratch_.path() / "x.safetensors";

  // A file from its parts, as the format's description says: length (8 bytes, little-endian), header, data.
  void write_raw(const std::string& header, const std::string& data, std::optional<std::uint64_t> length = {}) {
    std::ofstream out(path_, std::ios::binary);
    const std::uint64_t n = length.value_or(header.size());
    for (int i = 0; i < 8; ++i) out.put(static_cast<char>(n >> (8 * i)));
    out << header << data;
  }

  void expect_error(const std::string& key, const std::string& text) {
    try {
      SafetensorsFile file(path_);
      FAIL() << "no error; expected: " << text;
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.detail().file, path_.string());
      EXPECT_EQ(error.detail().key, key);
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  }
};

// 1.0f and -2.0f are 0x3f800000 and 0xc0000000 (IEEE 754).
TEST_F(Safetensors, ReadsAFileMadeByHand) {
  write_raw(R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})",
            std::string("\x00\x00\x80\x3f\x00\x00\x00\xc0", 8));
  SafetensorsFile file(path_);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  const at::Tensor w = file.tensor("w");
  EXPECT_EQ(w.sizes().vec(), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(w[0][0].item<float>(), 1.0f);
  EXPECT_EQ(w[0][1].item<float>(), -2.0f);
}

TEST_F(Safetensors, GivesBackEveryTypeBitForBit) {
  std::vector<NamedTensor> tensors;
  for (const auto dtype : {at::kHalf, at::kFloat, at::kBFloat16, at::kDouble, at::kLong}) {
    tensors.push_back({std::string(c10::toString(dtype)), (at::arange(15) * 1.25).view({3, 5}).to(dtype)});
  }
  tensors.push_back({"scalar", at::scalar_tensor(3.5)});
  tensors.push_back({"empty", at::empty({0, 4})});
  tensors.push_back({"transposed", at::arange(6, at::kFloat).view({2, 3}).t()});
  write_safetensors(path_, tensors, {{"format", "pt"}});
  SafetensorsFile file(path_);
  EXPECT_EQ(file.entries().size(), tensors.size());
  for (const NamedTensor& t : tensors) {
    const at::Tensor read = file.tensor(t.name);
    EXPECT_EQ(read.scalar_type(), t.tensor.scalar_type()) << t.name;
    EXPECT_TRUE(at::equal(read, t.tensor)) << t.name;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(read.const_data_ptr()) % read.element_size(), 0u) << t.name;
  }
}

TEST_F(Safetensors, ATensorOutlivesItsFile) {
  const NamedTensor t{"w", at::arange(1000, at::kFloat)};
  write_safetensors(path_, {&t, 1});
  const at::Tensor read = SafetensorsFile(path_).tensor("w");
  EXPECT_TRUE(at::equal(read, t.tensor));
}

// Offsets 1..5 of a file whose header takes 64 bytes: float data at an odd address.
TEST_F(Safetensors, CopiesWhatAnotherWriterDidNotAlign) {
  write_raw(
      R"({"a":{"dtype":"F16","shape":[0],"data_offsets":[0,0]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}} )",
      std::string("\x00\x00\x80\x3f", 4));
  EXPECT_EQ(SafetensorsFile(path_).tensor("b").item<float>(), 1.0f);
}

TEST_F(Safetensors, KeepsTheOldFileUntilCommit) {
  const NamedTensor old{"w", at::ones({2})};
  write_safetensors(path_, {&old, 1});
  {
    SafetensorsWriter writer(path_, {{.name = "w", .dtype = at::kFloat, .shape = {3}}});
    writer.write("w", at::zeros({3}));
  }
  EXPECT_TRUE(at::equal(SafetensorsFile(path_).tensor("w"), old.tensor));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch_.path()), {}), 1);
}

TEST_F(Safetensors, ChecksWhatIsWritten) {
  SafetensorsWriter writer(path_, {{.name = "w", .dtype = at::kFloat, .shape = {3}}});
  EXPECT_THROW(writer.write("v", at::zeros({3})), std::logic_error);
  EXPECT_THROW(writer.write("w", at::zeros({4})), std::logic_error);
  EXPECT_THROW(writer.write("w", at::zeros({3}, at::kDouble)), std::logic_error);
  EXPECT_THROW(writer.commit(), std::logic_error);
}

TEST_F(Safetensors, RefusesAMissingOrShortFile) {
  expect_error("", "cannot be opened: No such file");
  std::ofstream(path_) << "abc";
  expect_error("", "truncated: 3 bytes are too few");
}

TEST_F(Safetensors, RefusesAHeaderThatDoesNotFit) {
  write_raw("{}", "", 1000);
  expect_error("", "a header of 1000 bytes in a file of 10");
  write_raw("{\"a\":", "");
  expect_error("", "the header is not a JSON object");
}

TEST_F(Safetensors, RefusesEntriesThatDoNotFit) {
  write_raw(R"({"w":{"dtype":"F8","shape":[1],"data_offsets":[0,1]}})", "x");
  expect_error("w", "element type F8; F32, F64, BF16, F16 and I64 are read");
  write_raw(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "abcd");
  expect_error("w", "the header gives 4 bytes to F32 (2), which has 8");
  write_raw(R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "abcd");
  expect_error("w", "'shape' is not a list of sizes");
  write_raw(R"({"w":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,4]}})", "abcd");
  expect_error("w", "the shape is too large");
  // 2^64 - 1 as a signed number is -1, and (-1)(-1) floats are the four bytes that are there.
  write_raw(R"({"w":{"dtype":"F32","shape":[18446744073709551615,18446744073709551615],"data_offsets":[0,4]}})", "abcd");
  expect_error("w", "'shape' is not a list of sizes");
  // No elements, but strides of 2^62 x 4.
  write_raw(R"({"w":{"dtype":"F32","shape":[0,4611686018427387904,4],"data_offsets":[0,0]}})", "");
  expect_error("w", "the shape is too large");
  write_raw(R"({"w":{"dtype":"F32","shape":[1]}})", "abcd");
  expect_error("w", "no list 'data_offsets'");
}

TEST_F(Safetensors, RefusesDataThatDoesNotFit) {
  const std::string two = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)";
  write_raw(two + R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "abcdef");
  expect_error("b", "truncated: ends at byte 8 of the data, and the file has 6");
  write_raw(two + R"("b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})", "abcdef");
  expect_error("b", "starts at byte 2 of the data where the tensor before ends at 4");
  write_raw(two + R"("b":{"dtype":"F32","shape":[1],"data_offsets":[5,9]}})", "abcdefghi");
  expect_error("b", "starts at byte 5 of the data where the tensor before ends at 4");
  write_raw(two + R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "abcdefghij");
  expect_error("", "2 bytes behind the last tensor");
}

TEST_F(Safetensors, NamesATensorThatIsNotThere) {
  write_safetensors(path_, {});
  SafetensorsFile file(path_);
  try {
    file.tensor("w");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.detail().key, "w");
    EXPECT_THAT(error.what(), HasSubstr("no such tensor in this file"));
  }
}

}  // namespace
}  // namespace trireme::train
