// Generators against PyTorch's and Megatron-core's: tools/make_schedule_goldens.py.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "plan/pipeline/generators.h"
#include "plan/pipeline/schedule_file.h"

namespace trireme::plan {
namespace {

std::uint64_t digest(const std::string& text) {
  std::uint64_t value = 0xcbf29ce484222325ull;
  for (const unsigned char byte : text) value = (value ^ byte) * 0x100000001b3ull;
  return value;
}

// Without its weight gradients.
std::string forwards_and_gradients(const std::string& csv) {
  std::string out, cell;
  for (const char c : csv + "\n") {
    if (c != ',' && c != '\n') {
      cell += c;
      continue;
    }
    if (cell.find('W') == std::string::npos) out += cell + " ";
    cell.clear();
  }
  return out;
}

TEST(ScheduleGoldens, AreThoseOfPyTorchAndMegatron) {
  std::ifstream in(TRIREME_SOURCE_DIR "/tests/golden/pipeline_schedules.txt");
  ASSERT_TRUE(in);
  std::map<std::string, int> seen;
  int spelled = 0, moved = 0;
  Schedule schedule;
  std::size_t stage = 0;
  std::istringstream rows;
  bool weights_move = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("#")) continue;
    if (!line.starts_with("schedule ")) {
      std::string own;
      ASSERT_TRUE(std::getline(rows, own));
      if (weights_move)
        EXPECT_EQ(forwards_and_gradients(own), forwards_and_gradients(line)) << to_text(schedule);
      else
        EXPECT_EQ(own, line) << to_text(schedule);
      // And as a file: the same rows.
      const ScheduleText read = parse_schedule_csv(to_csv(schedule), schedule.name);
      EXPECT_EQ(read.schedule.rows[stage], schedule.rows[stage]) << line;
      ++stage, ++spelled;
      continue;
    }
    std::istringstream words(line);
    std::string word, whose, name, wanted;
    int p = 0, m = 0, v = 0, group = 0;
    words >> word >> whose >> name >> p >> m >> v >> group >> wanted;
    schedule =
        make_schedule(name, {.num_stages = p, .num_micro_batches = m, .num_chunks = v, .micro_batch_group = group});
    // With fewer micro-batches than a zero-bubble V needs to fill it, ours moves weight gradients into the gaps.
    weights_move = name == "zero_bubble_v" && m < 2 * p - 1;
    if (weights_move)
      ++moved;
    else
      EXPECT_EQ(fmt::format("{:016x}", digest(to_csv(schedule))), wanted) << line << "\n" << to_csv(schedule);
    rows = std::istringstream(to_csv(schedule));
    stage = 0;
    ++seen[whose + " " + name];
  }
  EXPECT_GE(seen["torch interleaved_1f1b"], 100);
  EXPECT_GE(seen["torch zero_bubble_v"], 100);
  EXPECT_GE(seen["torch dualpipe_v"], 70);
  EXPECT_GE(seen["megatron interleaved_1f1b"], 300);
  EXPECT_EQ(seen["megatron interleaved_1f1b"], seen["megatron merged_1f1b"]);
  EXPECT_LE(moved, 40);
  EXPECT_GE(spelled, 60);
}

}  // namespace
}  // namespace trireme::plan
