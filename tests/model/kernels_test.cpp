#include "model/kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "base/units.h"

namespace trireme::model {
namespace {

std::string error_of(const std::string& toml) {
  try {
    parse_kernels(toml, "stack.toml");
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

TEST(Kernels, ReadsBackWhatItWrites) {
  for (const std::string& name : kernels_names()) {
    Kernels p = find_kernels(name);
    p.vocabulary_multiple = 7;
    EXPECT_EQ(parse_kernels(to_toml(p), "stack.toml"), p) << name;
  }
}

TEST(Kernels, ChangesAProfileByKeys) {
  const Kernels p =
      parse_kernels("base = \"megatron\"\nfragmentation = 0.1\nloss = \"chunked\"\n", "stack.toml");
  Kernels expected = find_kernels("megatron");
  expected.fragmentation = 0.1;
  expected.loss = LossKind::chunked;
  EXPECT_EQ(p, expected);
}

TEST(Kernels, RefusesWhatCannotBe) {
  EXPECT_THAT(error_of("gemm_workspace_bytes = -1"), ::testing::HasSubstr("gemm_workspace_bytes"));
  EXPECT_THAT(error_of("vocabulary_multiple = 0"), ::testing::HasSubstr("vocabulary_multiple"));
  EXPECT_THAT(error_of("loss = \"none\""), ::testing::HasSubstr("chunked"));
  EXPECT_THAT(error_of("fragmentaton = 0.1"), ::testing::HasSubstr("fragmentation"));
  EXPECT_THAT(error_of("base = \"pytorch\""), ::testing::HasSubstr("megatron"));
  EXPECT_THROW(find_kernels("pytorch"), ConfigError);
}

// The file that says what each key means must say what the program assumes without it.
TEST(Kernels, PlainAreTheDefaults) {
  EXPECT_EQ(find_kernels("plain"), Kernels{});
}

// What the program has inside is what the folder says.
TEST(Kernels, ComeFromTheFolder) {
  const std::filesystem::path folder = std::filesystem::path(TRIREME_SOURCE_DIR) / "configs/kernels";
  for (const std::string& name : kernels_names()) {
    Kernels file = load_kernels(folder / (name + ".toml"));
    file.name = name;
    EXPECT_EQ(file, find_kernels(name)) << name;
  }
  EXPECT_THAT(kernels_names(), ::testing::IsSupersetOf({"eager", "europa", "korthikanti", "megatron", "mindspeed",
                                                        "plain", "torchtitan", "trireme", "trireme_device"}));
}

// Transformer Engine's workspaces are powers of two, cuBLAS's 8.125 MiB a thread; NCCL's group 388 MiB.
TEST(Kernels, SizesInBytes) {
  const Kernels m = find_kernels("megatron");
  EXPECT_EQ(m.gemm_workspace_bytes, 32 * MiB);
  EXPECT_EQ(m.grouped_gemm_workspace_bytes, 4 * 32 * MiB);
  EXPECT_EQ(m.head_gemm_workspace_bytes, 2 * 8.125 * MiB);
  EXPECT_EQ(m.communicator_bytes, 388 * MiB);
  EXPECT_EQ(find_kernels("mindspeed").communicator_bytes, 200 * MiB);
}

}  // namespace
}  // namespace trireme::model
