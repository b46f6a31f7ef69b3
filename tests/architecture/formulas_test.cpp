// Every section of docs/price.md that a term of --explain names is there.
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::set<std::string> matches(const std::string& text, const std::regex& pattern) {
  std::set<std::string> out;
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) out.insert((*at)[1]);
  return out;
}

TEST(Formulas, SectionsThatTermsNameAreThere) {
  const fs::path source = TRIREME_SOURCE_DIR;
  std::set<std::string> sections;
  for (std::string heading : matches(text_of(source / "docs" / "price.md"), std::regex("## ([^\n]+)\n"))) {
    for (char& c : heading) c = c == ' ' ? '-' : static_cast<char>(std::tolower(c));
    sections.insert(heading);
  }
  std::set<std::string> named;
  for (const auto& entry : fs::recursive_directory_iterator(source / "src" / "sim"))
    if (entry.path().extension() == ".cpp")
      named.merge(matches(text_of(entry.path()), std::regex("price\\.md#([a-z-]+)")));
  EXPECT_GE(named.size(), 8u);
  for (const std::string& name : named) EXPECT_TRUE(sections.contains(name)) << "docs/price.md has no section " << name;
}

}  // namespace
