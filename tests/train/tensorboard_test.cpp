#include "train/metrics/tensorboard.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

// The data of a file's records, each of which must lie in its frame.
std::vector<std::string> records_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  std::vector<std::string> out;
  for (std::size_t at = 0; at + 12 <= all.size(); at += out.back().size() + 16) {
    std::uint64_t length = 0;
    std::memcpy(&length, all.data() + at, sizeof(length));
    out.push_back(all.substr(at + 12, length));
    EXPECT_EQ(all.substr(at, length + 16), frame_record(out.back()));
  }
  return out;
}

double wall_time_of(const std::string& event) {  // the first field, behind its key
  double out = 0;
  std::memcpy(&out, event.data() + 1, sizeof(out));
  return out;
}

TEST(TensorBoard, WritesAFileOfRecords) {
  ScratchFolder scratch;
  std::filesystem::path path;
  {
    TensorBoardWriter writer(scratch.path() / "tensorboard", 7);
    StepMetrics metrics{.step = 7, .loss = 2.5, .grad_norm = std::numeric_limits<double>::quiet_NaN()};
    metrics.eval_loss = 3.5;
    writer.write(metrics);
    path = writer.path();
  }
  EXPECT_THAT(path.filename().string(), testing::StartsWith("events.out.tfevents."));
  const std::vector<std::string> events = records_of(path);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0], encode_event({.wall_time = wall_time_of(events[0]), .file_version = "brain.Event:2"}));
  // Behind the time: step 7, then field 7 delimited (3a), two bytes: field 1 varint (08), START (01).
  EXPECT_EQ(events[1].substr(9), std::string("\x10\x07\x3a\x02\x08\x01", 6));
  EXPECT_GT(wall_time_of(events[2]), 1.6e9);
  EXPECT_EQ(events[2].substr(9, 2), "\x10\x07");  // the step
  // 2.5 is 40200000 and 3.5 is 40600000.
  EXPECT_THAT(events[2], HasSubstr(std::string("\x0a\x0a" "train/loss" "\x15\x00\x00\x20\x40", 17)));
  EXPECT_THAT(events[2], HasSubstr(std::string("\x0a\x09" "eval/loss" "\x15\x00\x00\x60\x40", 16)));
  EXPECT_THAT(events[2], testing::Not(HasSubstr("train/grad_norm"))) << "a NaN is left out";
}

// What TensorBoard shows: the rule of its event_accumulator (_CheckForRestartAndMaybePurge), files in order of name.
std::map<std::int64_t, int> shown_steps(const std::filesystem::path& folder) {
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.insert(entry.path());
  std::map<std::int64_t, int> shown;
  for (const auto& file : files)
    for (const std::string& event : records_of(file)) {
      std::int64_t step = 0;  // below 128 in these tests: one byte
      if (event.size() > 10 && event[9] == '\x10') step = event[10];
      const bool start = event.ends_with(std::string("\x3a\x02\x08\x01", 4));
      if (start) shown.erase(shown.lower_bound(step), shown.end());
      else if (event.find("train/loss") != std::string::npos) ++shown[step];
    }
  return shown;
}

// A run dies at step 7 and goes on from the checkpoint of step 4, and then goes back from 6 to 5 by itself. Both sessions
// start within one second.
TEST(TensorBoard, StepsTakenAgainShowOnce) {
  ScratchFolder scratch;
  const std::filesystem::path folder = scratch.path() / "tensorboard";
  const auto take = [&](TensorBoardWriter& writer, std::int64_t first, std::int64_t last) {
    for (std::int64_t step = first; step <= last; ++step) writer.write(StepMetrics{.step = step, .loss = 2});
  };
  {
    TensorBoardWriter died(folder, 1);
    take(died, 1, 7);
  }
  TensorBoardWriter resumed(folder, 5);
  EXPECT_EQ(shown_steps(folder).size(), 4u) << "what lies behind the checkpoint is gone";
  take(resumed, 5, 6);
  take(resumed, 5, 8);
  const std::map<std::int64_t, int> once{{1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 1}, {7, 1}, {8, 1}};
  EXPECT_EQ(shown_steps(folder), once);
}

}  // namespace
}  // namespace trireme::train
