// docs/known_pitfalls.md names tests: each must be there.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include <gtest/gtest.h>

namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string all_tests() {
  std::string out;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(TRIREME_SOURCE_DIR) / "tests"))
    if (entry.path().extension() == ".cpp" || entry.path().extension() == ".py") out += read(entry.path());
  return out;
}

bool is_there(const std::string& tests, const std::string& suite, const std::string& name) {
  if (suite == "Cli") return tests.find("class " + name + "(Case)") != std::string::npos;
  const bool any = name.find('*') != std::string::npos;
  for (const std::string macro : {"TEST", "TEST_F", "TEST_P"})
    if (tests.find("\n" + macro + "(" + suite + ", " + (any ? "" : name + ")")) != std::string::npos) return true;
  return false;
}

TEST(KnownPitfalls, NameTestsThatExist) {
  const std::string text = read(fs::path(TRIREME_SOURCE_DIR) / "docs" / "known_pitfalls.md"), tests = all_tests();
  const std::regex named("`([A-Z][A-Za-z]*)\\.([A-Za-z0-9*]+)`");
  int found = 0;
  for (std::sregex_iterator at(text.begin(), text.end(), named), end; at != end; ++at, ++found)
    EXPECT_TRUE(is_there(tests, (*at)[1], (*at)[2])) << (*at)[0];
  EXPECT_GT(found, 30);
  EXPECT_FALSE(is_there(tests, "Parity", "NoSuchTest")) << "the check itself";
}

}  // namespace
