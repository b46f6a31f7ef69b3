#include "platform/memory_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"

namespace trireme::platform {
namespace {

std::string error_of(const std::string& toml) {
  try {
    parse_memory_profile(toml, "stack.toml");
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

TEST(MemoryProfile, ReadsBackWhatItWrites) {
  for (const std::string& name : memory_profile_names()) {
    MemoryProfile p = memory_profile(name);
    p.vocabulary_multiple = 7;
    EXPECT_EQ(parse_memory_profile(to_toml(p), "stack.toml"), p) << name;
  }
}

TEST(MemoryProfile, ChangesAProfileByKeys) {
  const MemoryProfile p =
      parse_memory_profile("base = \"megatron\"\nfragmentation = 0.1\nloss = \"chunked\"\n", "stack.toml");
  MemoryProfile expected = memory_profile("megatron");
  expected.fragmentation = 0.1;
  expected.loss = LossKind::chunked;
  EXPECT_EQ(p, expected);
}

TEST(MemoryProfile, RefusesWhatCannotBe) {
  EXPECT_THAT(error_of("gemm_workspace_bytes = -1"), ::testing::HasSubstr("gemm_workspace_bytes"));
  EXPECT_THAT(error_of("vocabulary_multiple = 0"), ::testing::HasSubstr("vocabulary_multiple"));
  EXPECT_THAT(error_of("loss = \"none\""), ::testing::HasSubstr("chunked"));
  EXPECT_THAT(error_of("fragmentaton = 0.1"), ::testing::HasSubstr("fragmentation"));
  EXPECT_THAT(error_of("base = \"pytorch\""), ::testing::HasSubstr("megatron"));
  EXPECT_THROW(memory_profile("pytorch"), ConfigError);
}

}  // namespace
}  // namespace trireme::platform
