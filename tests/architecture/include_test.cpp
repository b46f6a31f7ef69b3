// Holds every #include of src/ and apps/ against the direction of dependence.
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fs = std::filesystem;

namespace {

// base <- model, platform <- plan <- sim <- search; plan <- report; base, plan <- comm; base, model <- nn;
// comm, nn, plan <- parallel <- train. What a folder's own dependencies include is allowed too.
const std::map<std::string, std::set<std::string>> allowed = {
    {"base", {}},
    {"model", {"base"}},
    {"platform", {"base"}},
    {"plan", {"base", "model", "platform"}},
    {"sim", {"base", "model", "platform", "plan"}},
    {"search", {"base", "model", "platform", "plan", "sim"}},
    {"report", {"base", "model", "platform", "plan"}},
    {"comm", {"base", "model", "platform", "plan"}},
    {"nn", {"base", "model"}},
    {"parallel", {"base", "model", "platform", "plan", "comm", "nn"}},
    {"train", {"base", "model", "platform", "plan", "comm", "nn", "parallel"}},
};
const std::set<std::string> torch_free = {"base", "model", "platform", "plan", "sim", "search", "report"};

struct Include {
  int line;
  std::string path;
};

std::vector<Include> includes_of(const fs::path& file) {
  static const std::regex pattern(R"(^\s*#\s*include\s*[<"]([^>"]+)[>"])");
  std::ifstream in(file);
  std::vector<Include> out;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    std::smatch match;
    if (std::regex_search(line, match, pattern)) out.push_back({number, match[1]});
  }
  return out;
}

bool is_source(const fs::path& path) { return path.extension() == ".h" || path.extension() == ".cpp"; }

std::vector<std::string> violations(const std::string& folder, const std::vector<Include>& includes,
                                    const std::string& where) {
  std::vector<std::string> out;
  for (const Include& include : includes) {
    const std::string top = include.path.substr(0, include.path.find('/'));
    const std::string at = where + ":" + std::to_string(include.line) + " includes " + include.path;
    if (allowed.count(top) && top != folder && !allowed.at(folder).count(top)) out.push_back(at);
    const bool torch = top == "ATen" || top == "torch" || top == "c10" || top == "gloo";
    if (torch && torch_free.count(folder)) out.push_back(at + " (torch in the planning half)");
    if (include.path.rfind("gloo/", 0) == 0 && folder != "comm") out.push_back(at + " (Gloo outside comm)");
    if (include.path == "torch/torch.h") out.push_back(at + " (slow to compile; include what is used)");
  }
  return out;
}

TEST(Includes, FollowTheDirectionOfDependence) {
  const fs::path source = fs::path(TRIREME_SOURCE_DIR) / "src";
  std::vector<std::string> found;
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(source)) {
    if (!entry.is_regular_file() || !is_source(entry.path())) continue;
    const fs::path relative = fs::relative(entry.path(), source);
    const std::string folder = relative.begin()->string();
    ASSERT_TRUE(allowed.count(folder)) << "a folder that the table does not know: " << folder;
    const auto bad = violations(folder, includes_of(entry.path()), relative.string());
    found.insert(found.end(), bad.begin(), bad.end());
    ++files;
  }
  EXPECT_GT(files, 50);
  EXPECT_THAT(found, ::testing::IsEmpty());
}

TEST(Includes, GlooHeadersStandInOneSourceFile) {
  const fs::path source = fs::path(TRIREME_SOURCE_DIR) / "src" / "comm";
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(source)) {
    if (!is_source(entry.path())) continue;
    for (const auto& include : includes_of(entry.path()))
      if (include.path.rfind("gloo/", 0) == 0 || include.path.find("ProcessGroupGloo") != std::string::npos)
        files.insert(entry.path().filename().string());
  }
  EXPECT_LE(files.size(), 1u) << ::testing::PrintToString(files);
}

TEST(Includes, TheCheckItselfSeesAWrongInclude) {
  EXPECT_THAT(violations("nn", {{3, "comm/group.h"}}, "nn/x.cpp"), ::testing::SizeIs(1));
  EXPECT_THAT(violations("plan", {{1, "ATen/ATen.h"}}, "plan/x.cpp"), ::testing::SizeIs(1));
  EXPECT_THAT(violations("train", {{1, "comm/group.h"}, {2, "train/a.h"}, {3, "vector"}}, "train/x.cpp"),
              ::testing::IsEmpty());
}

}  // namespace
