#include "platform/platform_file.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"

namespace trireme::platform {
namespace {

using testing::HasSubstr;

const char* const least = R"(name = "x"
[device]
memory_GiB = 2
launch_us = 3
[[device.peak]]
GFLOPps = 100
[[device.gemm]]
threads = 1
source = "measured"
m = [1, 10]
n = [1, 1]
k = [1, 1]
GFLOPps = [1, 2]
[[device.memory]]
threads = 1
use = "copy"
bytes = [1000]
GBps = [5]
[host]
cores = 2
memory_GiB = 4
[[link]]
latency_us = 50
bytes = [1000]
GBps = [1]
)";

std::string error_of(const std::string& text) {
  try {
    parse_platform(text, "p.toml");
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(PlatformFile, ConvertsItsUnitsOnce) {
  const PlatformSpec p = parse_platform(least, "p.toml");
  EXPECT_EQ(p.device.memory_bytes, 2147483648.0);  // 2 GiB
  EXPECT_DOUBLE_EQ(p.device.launch_s, 3e-6);
  EXPECT_DOUBLE_EQ(p.device.gemm[0].flops_per_s[1], 2e9);
  EXPECT_EQ(p.device.gemm[0].source, Source::measured);
  EXPECT_EQ(p.device.memory[0].source, Source::guess);  // where nothing is said
  EXPECT_DOUBLE_EQ(p.links[0].bytes_per_s[0], 1e9);
}

TEST(PlatformFile, GoesToTomlAndBack) {
  const PlatformSpec p = default_platform();
  const std::string text = to_toml(p);
  EXPECT_EQ(to_toml(parse_platform(text, "again")), text);
  // Six digits are written, so values agree to 1e-6.
  const PlatformSpec again = parse_platform(text, "again");
  ASSERT_EQ(again.device.gemm.size(), p.device.gemm.size());
  EXPECT_NEAR(again.device.gemm[0].flops_per_s[1] / p.device.gemm[0].flops_per_s[1], 1, 1e-6);
  EXPECT_EQ(again.host.busy[0].ranks, p.host.busy[0].ranks);
}

TEST(PlatformFile, GoesToJsonAndBackExactly) {
  const PlatformSpec p = default_platform();
  EXPECT_EQ(parse_platform_json(nlohmann::json(p).dump(), "p.json"), p);
}

TEST(PlatformFile, TheBuiltInGuessIsTheFileOfTheSameName) {
  std::ifstream in(std::filesystem::path(TRIREME_SOURCE_DIR) / "configs/platforms/laptop.toml");
  ASSERT_TRUE(in);
  std::ostringstream text;
  text << in.rdbuf();
  EXPECT_EQ(parse_platform(text.str(), "laptop.toml"), default_platform());
}

TEST(PlatformFile, KeepsSegmentFactors) {
  PlatformSpec p = default_platform();
  p.device.segments = {{.threads = 1, .source = Source::measured, .model = "a \"small\" one", .segment = {"experts", "head"},
                        .layer = {"moe", "end"}, .pass = {"backward", "forward"}, .factor = {1.25, 0.9}}};
  EXPECT_EQ(parse_platform(to_toml(p), "again").device.segments, p.device.segments);
  p.device.segments[0].tokens = {256, 512};
  p.device.segments[0].experts = {8, 8};
  p.device.segments.push_back({.threads = 2, .source = Source::measured, .segment = {"head"}, .layer = {"end"}, .pass = {"forward"}, .factor = {1.5}});
  EXPECT_EQ(parse_platform(to_toml(p), "again").device.segments, p.device.segments);
  EXPECT_EQ(parse_platform_json(nlohmann::json(p).dump(), "p.json"), p);
  p.device.segments[0].experts.pop_back();
  EXPECT_THAT(error_of(to_toml(p)), HasSubstr("device.segment[0].experts"));
  p.device.segments[0].experts.push_back(8);
  p.device.segments[0].pass.pop_back();
  try {
    parse_platform_json(nlohmann::json(p).dump(), "p.json");
    FAIL() << "accepted";
  } catch (const ConfigError& e) {
    EXPECT_THAT(e.what(), HasSubstr("device.segment[0].pass"));
  }
}

TEST(PlatformFile, KeepsNoiseAndRefusesUnsortedQuantiles) {
  PlatformSpec p = default_platform();
  EXPECT_TRUE(p.host.noise.factor.empty());
  p.host.noise = {.source = Source::measured, .factor = {0.5, 1, 2}};
  EXPECT_EQ(parse_platform(to_toml(p), "x.toml").host.noise, p.host.noise);
  p.host.noise.factor = {1, 0.5};
  try {
    parse_platform(to_toml(p), "x.toml");
    FAIL() << "accepted";
  } catch (const ConfigError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("host.noise.factor = 0.5 after 1: quantiles, ascending"));
  }
}

TEST(PlatformFile, KeepsBusyRanksOfEachNumberOfThreads) {
  PlatformSpec p = default_platform();
  p.host.busy = {{.threads = 2, .source = Source::measured, .ranks = {1}, .slow_down = {1}, .hand_over_s = {25 * 1e-6}, .noise = {0.03}},
                 {.threads = 1, .source = Source::measured, .ranks = {1, 2}, .slow_down = {1, 1.125}, .hand_over_s = {16 * 1e-6, 32 * 1e-6}}};
  EXPECT_EQ(parse_platform(to_toml(p), "x.toml").host.busy, p.host.busy);
  EXPECT_EQ(parse_platform_json(nlohmann::json(p).dump(), "p.json"), p);
  p.host.busy[0].noise = {0.03, 0.04};
  EXPECT_THAT(error_of(to_toml(p)), HasSubstr("host.busy[0].noise"));
}

TEST(PlatformFile, KeepsHostsOfOneMachine) {
  PlatformSpec p = default_platform();
  EXPECT_EQ(p.host.per_machine, 1);
  p.host.ranks = 2;
  p.host.per_machine = 4;
  EXPECT_EQ(parse_platform(to_toml(p), "x.toml").host, parse_platform_json(nlohmann::json(p).dump(), "p.json").host);
  EXPECT_EQ(parse_platform(to_toml(p), "x.toml").host.per_machine, 4);
}

TEST(PlatformFile, NamesAnUnknownKey) {
  EXPECT_THAT(error_of(replaced(least, "launch_us", "launch_ms")), HasSubstr("device.launch_us"));
  EXPECT_THAT(error_of(replaced(least, "latency_us = 50", "latency_us = 50\nlane = 1")), HasSubstr("link[0].lane"));
}

TEST(PlatformFile, NamesColumnsThatDontFit) {
  const std::string e = error_of(replaced(least, "n = [1, 1]", "n = [1]"));
  EXPECT_THAT(e, HasSubstr("device.gemm[0].n"));
  EXPECT_THAT(e, HasSubstr("as many values as m (2)"));
}

TEST(PlatformFile, NamesAValueThatIsNotPositive) {
  EXPECT_THAT(error_of(replaced(least, "GFLOPps = [1, 2]", "GFLOPps = [1, 0]")), HasSubstr("device.gemm[0].GFLOPps"));
}

TEST(PlatformFile, NamesAMissingTable) {
  EXPECT_THAT(error_of(replaced(least, "[[link]]", "[other]")), HasSubstr("other"));
  EXPECT_THAT(error_of(std::string(least).substr(0, std::string(least).find("[[link]]"))), HasSubstr("link"));
}

TEST(PlatformFile, RefusesAnUnknownMemberInJson) {
  nlohmann::json j = default_platform();
  j["device"]["lunch_s"] = 1;
  try {
    parse_platform_json(j.dump(), "p.json");
    FAIL() << "accepted";
  } catch (const ConfigError& e) {
    EXPECT_THAT(e.what(), HasSubstr("device.lunch_s"));
  }
}

TEST(PlatformFile, SaysWhenThereIsNone) { EXPECT_THROW(load_platform("no/such/file.toml"), ConfigError); }

TEST(PlatformFile, IsSavedByItsEnding) {
  const auto folder = std::filesystem::temp_directory_path() / ("trireme_platform_file_test_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  for (const char* name : {"p.toml", "p.json"}) {
    save_platform(default_platform(), folder / name);
    EXPECT_EQ(load_platform(folder / name).device.gemm.size(), default_platform().device.gemm.size()) << name;
  }
  std::filesystem::remove_all(folder);
}

TEST(PlatformFile, OutliersOfLinksComeBackWhereTheyWereMeasured) {
  PlatformSpec p = default_platform();
  EXPECT_EQ(to_toml(p).find("p99_us"), std::string::npos);
  p.links = {{.level = "network", .source = Source::measured, .latency_s = 5e-4, .bytes = {64, 4096},
              .bytes_per_s = {1e6, 2e6}, .p99_s = {1e-3, 2e-3}, .max_s = {4e-3, 8e-3}}};
  const Link back = parse_platform(to_toml(p), "p.toml").links.at(0);
  EXPECT_DOUBLE_EQ(back.p99_s[1], 2e-3);
  EXPECT_DOUBLE_EQ(back.max_s[0], 4e-3);
  EXPECT_EQ(nlohmann::json(p).get<PlatformSpec>(), p);
  EXPECT_THAT(error_of(std::string(least) + "max_us = [1, 2]\n"), HasSubstr("link[0].max_us"));
}

TEST(PlatformFile, SharedLinksComeBack) {
  PlatformSpec p = default_platform();
  p.shared_links = {{.level = "network", .source = Source::measured, .nodes = 8, .ranks_per_node = 4, .latency_s = 5e-4,
                     .message_s = 3e-4, .wake_s = 5e-5, .turn_s = 2e-4, .bytes_per_s = 1.25e7, .alone_bytes_per_s = 2e7, .partners = 7,
                     .bucket_bytes = 16384, .own_latency = 0.5, .blend = 2, .cards = 2, .copy_bytes_per_s = 2e9, .gather_s = 4e-6, .residual = 0.125}};
  const PlatformSpec back = parse_platform(to_toml(p), "p.toml");
  ASSERT_EQ(back.shared_links.size(), 1u);
  EXPECT_DOUBLE_EQ(back.shared_links[0].message_s, 3e-4);
  EXPECT_DOUBLE_EQ(back.shared_links[0].bytes_per_s, 1.25e7);
  EXPECT_EQ(back.shared_links[0].cards, 2);
  EXPECT_EQ(nlohmann::json(p).get<PlatformSpec>(), p);
  EXPECT_DOUBLE_EQ(back.shared_links[0].wake_s, 5e-5);
  EXPECT_DOUBLE_EQ(back.shared_links[0].turn_s, 2e-4);
  EXPECT_DOUBLE_EQ(back.shared_links[0].copy_bytes_per_s, 2e9);
  EXPECT_DOUBLE_EQ(back.shared_links[0].alone_bytes_per_s, 2e7);
  EXPECT_EQ(back.shared_links[0].partners, 7);
  EXPECT_EQ(back.shared_links[0].bucket_bytes, 16384);
  EXPECT_EQ(back.shared_links[0].own_latency, 0.5);
  EXPECT_EQ(back.shared_links[0].blend, 2);
  EXPECT_DOUBLE_EQ(back.shared_links[0].gather_s, 4e-6);
  EXPECT_FALSE(nlohmann::json(default_platform()).contains("shared_links"));
}

TEST(PlatformFile, RacesComeBack) {
  PlatformSpec p = default_platform();
  p.races = {{.pattern = "halo", .source = Source::measured, .nodes = 8, .ranks_per_node = 4, .top_k = 8,
              .bytes = {64, 4096}, .seconds = {0.0075, 0.05}}};
  const PlatformSpec back = parse_platform(to_toml(p), "p.toml");
  ASSERT_EQ(back.races.size(), 1u);
  EXPECT_EQ(back.races[0].pattern, "halo");
  EXPECT_EQ(back.races[0].bytes, p.races[0].bytes);
  EXPECT_DOUBLE_EQ(back.races[0].seconds[1], 0.05);
  EXPECT_EQ(back.races[0].top_k, 8);
  EXPECT_EQ(nlohmann::json(p).get<PlatformSpec>(), p);
  EXPECT_FALSE(nlohmann::json(default_platform()).contains("pattern_races"));
  p.races[0].seconds.pop_back();
  try {
    parse_platform(to_toml(p), "p.toml");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("pattern_race[0].us"));
  }
}

}  // namespace
}  // namespace trireme::platform
