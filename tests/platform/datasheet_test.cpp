#include <filesystem>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "platform/platform_file.h"

namespace trireme::platform {
namespace {

const std::string machine = R"(
name = "machine"
[device]
name = "accelerator"
kind = "cuda"
memory_GiB = 80
launch_us = 4
[host]
cores = 96
memory_GiB = 1024
[datasheet]
memory_GBps = 3350
host_link_GBps = 55
noise = 0.01
[[datasheet.peak]]
format = "bfloat16"
TFLOPps = 989.4
[[datasheet.peak]]
format = "float8"
TFLOPps = 1978.9
[[datasheet.level]]
name = "node"
shape = "mesh"
devices = 8
latency_us = 3
GBps = 450
[[datasheet.level]]
name = "global"
shape = "dragonfly"
latency_us = 8
GBps = 25
devices_per_port = 2
taper = 0.5
)";

std::string error_of(const std::string& toml) {
  try {
    parse_platform(toml, "machine.toml");
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = machine;
  return text.replace(text.find(from), from.size(), to);
}

TEST(Datasheet, IsReadWithUnits) {
  const Datasheet d = parse_platform(machine, "machine.toml").datasheet;
  EXPECT_DOUBLE_EQ(d.peak("bfloat16"), 989.4e12);
  EXPECT_DOUBLE_EQ(d.memory_bytes_per_s, 3350e9);
  ASSERT_EQ(d.levels.size(), 2u);
  EXPECT_DOUBLE_EQ(d.levels[0].latency_s, 3e-6);
  // 25 GB/s shared by two devices, half of it left between units: 25 * 0.5 / 2.
  EXPECT_DOUBLE_EQ(d.levels[1].device_bytes_per_s(), 6.25e9);
}

TEST(Datasheet, FormatsThatAreMissingFallBackOnWiderOnes) {
  const Datasheet d = parse_platform(machine, "machine.toml").datasheet;
  EXPECT_EQ(d.peak("float16"), d.peak("bfloat16"));
  EXPECT_EQ(d.peak("mxfp8"), d.peak("float8"));
  EXPECT_EQ(d.peak("nvfp4"), d.peak("float8"));
  EXPECT_EQ(d.peak("float32"), 0);
  EXPECT_EQ(Datasheet{}.peak("nvfp4"), 0);
}

TEST(Datasheet, LevelIsTheInnermostThatHoldsTheDevices) {
  const Datasheet d = parse_platform(machine, "machine.toml").datasheet;
  EXPECT_EQ(d.level_of(8), 0);
  EXPECT_EQ(d.level_of(9), 1);
  EXPECT_EQ(d.level_of(1 << 20), 1);
}

TEST(Datasheet, GoesThroughBothFileFormats) {
  const PlatformSpec p = parse_platform(machine, "machine.toml");
  EXPECT_EQ(parse_platform(to_toml(p), "again.toml"), p);
  EXPECT_EQ(parse_platform_json(nlohmann::json(p).dump(), "again.json"), p);
}

TEST(Datasheet, ErrorsNameTheKey) {
  EXPECT_EQ(error_of(machine), "");
  EXPECT_NE(error_of(with("memory_GBps = 3350", "memory_GBps = -1")).find("datasheet.memory_GBps"), std::string::npos);
  EXPECT_NE(error_of(with("GBps = 450", "GBps = -450")).find("GBps"), std::string::npos);
  EXPECT_NE(error_of(with("\"bfloat16\"", "\"bf61\"")).find("format"), std::string::npos);
  EXPECT_NE(error_of(with("devices = 8", "")).find("datasheet.level[0].devices"), std::string::npos);
  EXPECT_NE(error_of(with("shape = \"mesh\"", "shape = \"torus\"")).find("shape"), std::string::npos);
}

// Dense peaks and NVLink bandwidths as the vendors print them.
TEST(Datasheet, ShippedPlatformsLoad) {
  std::set<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(TRIREME_SOURCE_DIR) + "/configs/platforms")) {
    const PlatformSpec p = load_platform(entry.path());
    if (!p.datasheet.empty()) {
      EXPECT_EQ(p.name, entry.path().stem().string());
    }
    names.insert(p.name);
  }
  for (const char* name :
       {"frontier", "jupiter", "atlas_800t_a2", "dgx_a100", "dgx_h100", "dgx_h200", "dgx_h800", "dgx_b200", "dgx_b300",
        "gb200_nvl72", "gb300_nvl72", "mi300x", "mi325x", "mi355x", "a100_pcie", "a100_4x200g"})
    EXPECT_TRUE(names.count(name)) << name;
}

}  // namespace
}  // namespace trireme::platform
