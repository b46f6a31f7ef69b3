#include "base/append_file.h"

#include <signal.h>
#include <sys/resource.h>

#include <fstream>
#include <iterator>
#include <system_error>

#include <unistd.h>

#include <gtest/gtest.h>

#include "base/errors.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(AppendFile, GrowsAndIsContinued) {
  const fs::path path = fs::temp_directory_path() / ("trireme_append_file_grows_" + std::to_string(::getpid()));
  fs::remove(path);
  { AppendFile(path).append("one\n"); }
  AppendFile file(path);
  file.append("two\n");
  EXPECT_EQ(read(path), "one\ntwo\n");
  fs::remove(path);
}

// As on a full disk, the room ends inside a record: here at a limit of 10 bytes a file.
TEST(AppendFile, TakesBackARecordThatDoesNotFit) {
  const fs::path path = fs::temp_directory_path() / ("trireme_append_file_full_" + std::to_string(::getpid()));
  fs::remove(path);
  AppendFile file(path);
  file.append("12345\n");
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = ::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = before;
  small.rlim_cur = 10;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message;
  bool bad_path = true;
  try {
    file.append("67890\n");
  } catch (const std::system_error& error) {
    message = error.what();
    bad_path = is_bad_path(error.code());
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, old_handler);
  EXPECT_NE(message.find(path.string()), std::string::npos) << message;
  EXPECT_FALSE(bad_path) << "the disk is at fault, not the path";
  EXPECT_EQ(read(path), "12345\n");
  file.append("678\n");
  EXPECT_EQ(read(path), "12345\n678\n");
  fs::remove(path);
}

TEST(AppendFile, NamesAPathThatCannotBe) {
  try {
    AppendFile file("/absent/folder/file");
    FAIL() << "no error";
  } catch (const std::system_error& error) {
    EXPECT_NE(std::string(error.what()).find("/absent/folder/file"), std::string::npos);
    EXPECT_TRUE(is_bad_path(error.code()));
  }
}

}  // namespace
}  // namespace trireme
