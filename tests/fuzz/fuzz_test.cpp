// A short run over every format; scripts/fuzz.sh runs as long as it is told to.
#include <new>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "fuzz/runner.h"
#include "fuzz/work_limit.h"

namespace trireme::fuzz {
namespace {

constexpr std::int64_t inputs_of_a_format = 300;

class Fuzz : public testing::TestWithParam<Format> {};

TEST_P(Fuzz, ReadsOrRefusesEveryInput) {
  ASSERT_FALSE(GetParam().seeds.empty());
  write_crashes_to(testing::TempDir());
  const Tally tally = run(GetParam(), /*seed=*/1, inputs_of_a_format, [](const Fault& fault) {
    ADD_FAILURE() << fault.what << "\n--- the input:\n" << fault.input;
  });
  EXPECT_EQ(tally.inputs, inputs_of_a_format + static_cast<std::int64_t>(GetParam().seeds.size()));
  if (GetParam().name != "sentencepiece") {  // a build without the library refuses all
    EXPECT_LT(tally.refused, tally.inputs) << "not even a good input was read";
  }
  if (GetParam().refuses) {
    EXPECT_GT(tally.refused, 0) << "no mutation was wrong: the reader is not reached";
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Fuzz, testing::ValuesIn(all_formats()), [](const auto& info) { return info.param.name; });

// The instrument itself: what a reader may not do is found.
TEST(FuzzRunner, TellsOtherExceptionsAndMemoryFromRefusals) {
  Format format{.name = "wrong", .seeds = {""}};
  format.read = [](const std::string& input) {
    if (input == "throws") throw std::out_of_range("vector");
    if (input == "grows") {
      try {
        std::vector<char> all(std::size_t{1} << 34);
        [[maybe_unused]] static char* volatile used;  // else the compiler leaves the allocation out
        used = all.data();
      } catch (const std::bad_alloc&) {  // as a reader might
      }
    }
  };
  EXPECT_FALSE(fault_of(format, ""));
  EXPECT_EQ(fault_of(format, "throws")->what, "std::out_of_range: vector");
  EXPECT_EQ(fault_of(format, "grows")->what, "more than 512 MiB were asked for");
}

}  // namespace
}  // namespace trireme::fuzz
