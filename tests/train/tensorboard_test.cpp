#include "train/metrics/tensorboard.h"

#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "train/metrics/crc32c.h"
#include "train/scratch_folder.h"

namespace trireme::train {
namespace {

using testing::HasSubstr;

// RFC 3720, appendix B.4: 32 bytes of zeros, of ones, ascending; and the usual check value of "123456789".
TEST(Crc32c, AgreesWithTheStandardsVectors) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string ascending;
  for (int i = 0; i < 32; ++i) ascending += static_cast<char>(i);
  EXPECT_EQ(crc32c(ascending), 0x46dd794eu);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
}

// wall_time 1.0 is 3ff0000000000000, value 0.5 is 3f000000 (IEEE 754, little-endian below). Keys are number << 3 |
// type: 09 = field 1 fixed64, 10 = field 2 varint, 2a = field 5 delimited, 0a = field 1 delimited, 15 = field 2
// fixed32. Step 300 = 0b10_0101100 -> ac 02. Value: 0a 01 't' 15 <4> = 8 bytes; Summary: 0a 08 <8> = 10 bytes.
TEST(TensorBoard, EncodesAnEventAsWeDidByHand) {
  const std::string expected(
      "\x09\x00\x00\x00\x00\x00\x00\xf0\x3f\x10\xac\x02\x2a\x0a\x0a\x08\x0a\x01t\x15\x00\x00\x00\x3f", 24);
  EXPECT_EQ(encode_event({.wall_time = 1.0, .step = 300, .scalars = {{"t", 0.5f}}}), expected);
}

// Length 3, little-endian, with its checksum, the data, its checksum.
TEST(TensorBoard, FramesARecord) {
  const std::string record = frame_record("abc");
  ASSERT_EQ(record.size(), 8u + 4u + 3u + 4u);
  EXPECT_EQ(record.substr(0, 8), std::string("\x03\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 3), "abc");
}

TEST(TensorBoard, AFileReadsBack) {
  ScratchFolder scratch;
  std::filesystem::path path;
  {
    TensorBoardWriter writer(scratch.path() / "tensorboard");
    StepMetrics metrics{.step = 7, .loss = 2.5, .grad_norm = std::numeric_limits<double>::quiet_NaN()};
    metrics.eval_loss = 3.5;
    writer.write(metrics);
    path = writer.path();
  }
  EXPECT_THAT(path.filename().string(), testing::StartsWith("events.out.tfevents."));
  const auto events = read_events(path);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_EQ(events[1].step, 7);
  EXPECT_GT(events[1].wall_time, 1.6e9);
  EXPECT_THAT(events[1].scalars, testing::Contains(Scalar{"train/loss", 2.5f}));
  EXPECT_THAT(events[1].scalars, testing::Contains(Scalar{"eval/loss", 3.5f}));
  for (const Scalar& scalar : events[1].scalars) EXPECT_NE(scalar.tag, "train/grad_norm") << "a NaN is left out";
}

TEST(TensorBoard, SeesABrokenRecord) {
  ScratchFolder scratch;
  const auto path = scratch.path() / "events";
  const std::string first = frame_record(encode_event({.wall_time = 1, .file_version = "brain.Event:2"}));
  std::string second = frame_record(encode_event({.wall_time = 2, .step = 1, .scalars = {{"t", 1}}}));
  const auto expect_error = [&](const std::string& bytes, const std::string& text) {
    std::ofstream(path, std::ios::binary) << first << bytes;
    try {
      read_events(path);
      ADD_FAILURE() << "no error; expected: " << text;
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.detail().key, "byte " + std::to_string(first.size()));
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  expect_error(second.substr(0, second.size() - 1), "cut short");
  second[14] ^= 1;
  expect_error(second, "the checksum of the record is wrong");
  second[0] ^= 1;
  expect_error(second, "the checksum of the record's length is wrong");
}

}  // namespace
}  // namespace trireme::train
