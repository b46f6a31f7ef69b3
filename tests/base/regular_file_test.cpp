#include "base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <iterator>

#include <gtest/gtest.h>

#include "base/errors.h"
#include "base/read_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class RegularFile : public ::testing::Test {
 protected:
  RegularFile() : folder(fs::temp_directory_path() / ("trireme_regular_file_" + std::to_string(::getpid()))) {
    fs::remove_all(folder);
    fs::create_directories(folder / "sub");
    EXPECT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
    std::ofstream(folder / "text") << "words";
    fs::create_symlink("text", folder / "link");
    fs::create_symlink("nothing", folder / "dangling");
  }
  ~RegularFile() override { fs::remove_all(folder); }
  fs::path folder;
};

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

// A reader that opened the pipe would wait for a writer here for ever.
TEST_F(RegularFile, SaysWhatIsThereInsteadOfWaiting) {
  const std::string pipe = (folder / "pipe").string(), sub = (folder / "sub").string();
  EXPECT_EQ(error_of([&] { open_regular(pipe); }), pipe + ": is a pipe: expected a regular file");
  EXPECT_EQ(error_of([&] { open_regular_descriptor(pipe); }), pipe + ": is a pipe: expected a regular file");
  EXPECT_EQ(error_of([&] { read_file(pipe); }), pipe + ": is a pipe: expected a regular file");
  EXPECT_EQ(error_of([&] { open_regular(sub); }), sub + ": is a folder: expected a file");
  EXPECT_EQ(error_of([&] { open_regular("/dev/null"); }), "/dev/null: is a device: expected a regular file");
}

TEST_F(RegularFile, ReadsFilesAndLinksToThem) {
  for (const char* name : {"text", "link"}) {
    std::ifstream in = open_regular(folder / name);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "words") << name;
  }
  EXPECT_FALSE(open_regular(folder / "absent"));
  EXPECT_FALSE(open_regular(folder / "dangling"));
}

// `trireme plan <(sed ... run.toml)` gives a name such as /dev/fd/63.
TEST_F(RegularFile, APipeThatIsOpenAlreadyIsRead) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "words", 5), 5);
  ::close(ends[1]);
  EXPECT_EQ(read_file("/dev/fd/" + std::to_string(ends[0])), "words");
  ::close(ends[0]);
}

}  // namespace
}  // namespace trireme
