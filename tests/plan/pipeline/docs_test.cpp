// The grids in docs/schedules.md are what the generators make.
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "plan/pipeline/generators.h"

namespace trireme::plan {
namespace {

TEST(ScheduleDocs, ShowEverySchedulesGridAsItIs) {
  std::ifstream in(std::filesystem::path(TRIREME_SOURCE_DIR) / "docs/schedules.md");
  std::string line, block;
  std::set<std::string> shown;
  bool inside = false;
  while (std::getline(in, line)) {
    if (line.rfind("```", 0) != 0) {
      if (inside) block += line + "\n";
      continue;
    }
    inside = !inside;
    if (inside || block.find("stage 0") == std::string::npos) {
      block.clear();
      continue;
    }
    const Schedule s = parse_schedule(block);
    EXPECT_EQ(to_text(s), block);
    EXPECT_EQ(
        make_schedule(
            s.name, {.num_stages = s.num_stages, .num_micro_batches = s.num_micro_batches, .num_chunks = s.num_chunks}),
        s)
        << block;
    shown.insert(s.name);
    block.clear();
  }
  for (const std::string& name : schedule_names()) EXPECT_TRUE(shown.count(name)) << name;
}

}  // namespace
}  // namespace trireme::plan
