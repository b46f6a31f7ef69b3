#include "base/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <system_error>

namespace trireme {
namespace {

namespace fs = std::filesystem;

class AtomicFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() /
              (std::string("atomic_file_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  static std::string read(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::ptrdiff_t files() const { return std::distance(fs::directory_iterator(folder_), {}); }
  fs::path folder_;
};

TEST_F(AtomicFileTest, AppearsOnlyWhenCommitted) {
  write_file_atomically(folder_ / "a", "old");
  AtomicFile file(folder_ / "a");
  file.write("new ");
  file.write("text");
  EXPECT_EQ(read(folder_ / "a"), "old");
  file.commit();
  EXPECT_EQ(read(folder_ / "a"), "new text");
  EXPECT_EQ(files(), 1);
}

TEST_F(AtomicFileTest, AbandonedLeavesTheOldOneAndNothingElse) {
  write_file_atomically(folder_ / "a", "old");
  { AtomicFile(folder_ / "a").write("half"); }
  EXPECT_EQ(read(folder_ / "a"), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(AtomicFileTest, WritesAtAnOffset) {
  AtomicFile file(folder_ / "a");
  file.write("0123456789");
  const std::byte xy[] = {std::byte{'x'}, std::byte{'y'}};
  file.write_at(3, xy);
  file.commit();
  EXPECT_EQ(read(folder_ / "a"), "012xy56789");
}

TEST_F(AtomicFileTest, AnUnwritablePlaceIsNamed) {
  try {
    AtomicFile file(folder_ / "missing" / "a");
    FAIL() << "no exception";
  } catch (const std::system_error& e) {
    EXPECT_NE(std::string(e.what()).find((folder_ / "missing" / "a").string()), std::string::npos) << e.what();
    EXPECT_EQ(e.code(), std::errc::no_such_file_or_directory);
  }
}

TEST_F(AtomicFileTest, AFolderIsRefusedBeforeAnythingIsWritten) {
  try {
    check_writable(folder_);
    FAIL() << "no exception";
  } catch (const std::system_error& e) {
    EXPECT_EQ(e.code(), std::errc::is_a_directory);
  }
  check_writable(folder_ / "new");
  EXPECT_EQ(files(), 0);
}

TEST_F(AtomicFileTest, ALinkStaysALink) {
  write_file_atomically(folder_ / "a", "old");
  fs::create_symlink("a", folder_ / "link");
  write_file_atomically(folder_ / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(read(folder_ / "a"), "new");
  EXPECT_EQ(files(), 2);
}

// As after SIGKILL in the middle of a write, where nobody is left to remove anything.
TEST_F(AtomicFileTest, AProcessThatIsKilledLeavesNothing) {
  const int probe = ::open(folder_.c_str(), O_TMPFILE | O_WRONLY, 0600);
  if (probe < 0) GTEST_SKIP() << "this file system has no files without a name";
  ::close(probe);
  const pid_t child = ::fork();
  if (child == 0) {
    AtomicFile file(folder_ / "a");
    file.write("half");
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(files(), 0);
}

// A pipe stands for devices: a test that fails must not replace /dev/null.
TEST_F(AtomicFileTest, WhatIsNoFileIsWrittenStraight) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  write_file_atomically(pipe, "text");
  char got[8] = {};
  EXPECT_EQ(::read(reader, got, sizeof got), 4);
  EXPECT_STREQ(got, "text");
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_EQ(files(), 1);
}

}  // namespace
}  // namespace trireme
