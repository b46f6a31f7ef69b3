#include "platform/host_memory.h"

#include <unistd.h>

#include <fstream>

#include <gtest/gtest.h>

#include "base/units.h"

namespace trireme::platform {
namespace {

namespace fs = std::filesystem;

// A made-up /proc and /sys: of a host with 16 GiB, 12 of them available, and a process of 1 GiB of addresses.
class HostMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("trireme_host_memory_" + std::to_string(::getpid()));
    write("proc/meminfo", "MemTotal:       16777216 kB\nMemFree:        1048576 kB\nMemAvailable:   12582912 kB\n");
    write("proc/self/status", "Name:\ttrireme\nVmSize:\t 1048576 kB\nVmData:\t  524288 kB\n");
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const fs::path& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  fs::path root_;
};

TEST_F(HostMemoryTest, IsWhatTheHostHasWhereNothingLimitsIt) {
  const HostMemory m = measure_host_memory(root_, {});
  EXPECT_EQ(m.total_bytes, 16 * GiB);
  ASSERT_NE(m.tightest(false), nullptr);
  EXPECT_EQ(m.tightest(false)->free_bytes, 12 * GiB);
  EXPECT_EQ(m.tightest(true), nullptr);
}

TEST_F(HostMemoryTest, FollowsVersion2UpToTheRoot) {
  write("proc/self/cgroup", "0::/pod/box\n");
  write("sys/fs/cgroup/pod/box/memory.max", "max\n");
  write("sys/fs/cgroup/pod/box/memory.current", "0\n");
  // The pod has 4 GiB of which 3 are in use, 1 of them cached files: 4 - (3 - 1) = 2 are free.
  write("sys/fs/cgroup/pod/memory.max", "4294967296\n");
  write("sys/fs/cgroup/pod/memory.current", "3221225472\n");
  write("sys/fs/cgroup/pod/memory.stat", "anon 5\ninactive_file 536870912\nactive_file 536870912\n");
  const HostMemory m = measure_host_memory(root_, {});
  EXPECT_EQ(m.total_bytes, 4 * GiB);
  EXPECT_EQ(m.tightest(false)->free_bytes, 2 * GiB);
  EXPECT_EQ(m.tightest(false)->what, "memory.max of the control group /pod");
}

TEST_F(HostMemoryTest, ReadsVersion1AndItsWordForNoLimit) {
  write("proc/self/cgroup", "5:cpu,memory:/docker/1\n1:name=systemd:/docker/1\n");
  write("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "2147483648\n");
  write("sys/fs/cgroup/memory/docker/1/memory.usage_in_bytes", "1073741824\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n");
  const HostMemory m = measure_host_memory(root_, {});
  EXPECT_EQ(m.limits.size(), 2u);  // MemAvailable and the group's
  EXPECT_EQ(m.tightest(false)->free_bytes, 1 * GiB);
}

// In a container the path of the host's tree is not mounted: the mount is the container's own group.
TEST_F(HostMemoryTest, TakesTheMountWhereThePathIsNotInIt) {
  write("proc/self/cgroup", "0::/system.slice/docker-1.scope\n");
  write("sys/fs/cgroup/memory.max", "1073741824\n");
  write("sys/fs/cgroup/memory.current", "268435456\n");
  EXPECT_EQ(measure_host_memory(root_, {}).tightest(false)->free_bytes, 0.75 * GiB);
}

TEST_F(HostMemoryTest, KeepsTheProcessesOwnLimitsApart) {
  const HostMemory m = measure_host_memory(root_, {.address_space = 3 * GiB, .data = 1 * GiB});
  EXPECT_EQ(m.tightest(true)->what, "ulimit -d");
  EXPECT_EQ(m.tightest(true)->free_bytes, 0.5 * GiB);
  EXPECT_EQ(m.limits[1].free_bytes, 2 * GiB);  // 3 less the 1 that is mapped
  EXPECT_EQ(m.total_bytes, 16 * GiB);
  // Nothing is below nothing.
  EXPECT_EQ(measure_host_memory(root_, {.address_space = 1}).tightest(true)->free_bytes, 0);
}

TEST(HostMemory, ThisHostHasSome) {
  const HostMemory m = measure_host_memory();
  ASSERT_NE(m.tightest(false), nullptr);
  EXPECT_GT(m.tightest(false)->free_bytes, 0);
  EXPECT_LE(m.tightest(false)->free_bytes, m.tightest(false)->limit_bytes);
}

}  // namespace
}  // namespace trireme::platform
