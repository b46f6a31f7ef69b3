// Sizes of a model become FLOPs, bytes and counts of parameters in the files below and nowhere else.
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

// The planning half's places, and why. comm, nn, parallel and train make tensors of these sizes; they price nothing.
const std::map<std::string, std::string> places = {
    {"model/description/", "what each segment computes, keeps and holds"},
    {"model/flops.cpp", "query-key pairs and scans, which no weight has"},
    {"model/parameter_lister.h", "shapes of the tensors of checkpoints"},
    {"model/mixer_parameters.cpp", "shapes of the tensors of checkpoints"},
    {"model/validate_model.cpp", "a bound that keeps counts whole numbers"},
    {"sim/estimate/described.cpp", "rows of a micro-batch: a rank's share"},
    {"sim/memory_cost.cpp", "a run's buffers between segments"},
    {"sim/price.cpp", "a run's messages between stages, and of its counts"},
    {"sim/exchange_cost.cpp", "a run's rows"},
    {"sim/estimate/newton_schulz.cpp", "an optimizer's matmuls"},
};

// Sizes that are multiplied on the way to new sizes, and never become FLOPs or bytes.
const std::set<std::string> designs = {"model/hf_deepseek_families.cpp", "search/design/architectures.cpp",
                                       "search/validation/resolve_row.cpp"};

// Lines of code with a product of two things of which one is a size of an architecture.
std::vector<int> products(const std::vector<std::string>& lines) {
  static const std::string size =
      "(hidden|num_heads|num_kv_heads|head_dim|value_dim\\(\\)|expert_ffn|dense_ffn|shared_ffn|vocab_size|kv_lora_rank|"
      "q_lora_rank|o_lora_rank|qk_nope_dim|qk_rope_dim|latent_dim|num_experts|state_dim|index_heads|index_head_dim|"
      "conv_width)";
  static const std::regex product("\\b" + size + "\\)?[})]?\\s*\\*\\s*[a-z0-9(]|[a-z0-9)}\\]]\\s*\\*\\s*"
                                  "(static_cast<[a-z:_0-9]+>\\(|double\\(|\\()?([a-z_]+(\\(\\))?(\\.|->))*" + size + "\\b");
  std::vector<int> out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string code = lines[i].substr(0, lines[i].find("//"));
    if (std::regex_search(code, product)) out.push_back(static_cast<int>(i) + 1);
  }
  return out;
}

std::vector<std::string> lines_of(const fs::path& file) {
  std::ifstream in(file);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

TEST(Sizes, AreMultipliedInOnePlace) {
  const fs::path source = fs::path(TRIREME_SOURCE_DIR) / "src";
  const std::set<std::string> running = {"comm", "nn", "parallel", "train"};
  std::vector<std::string> found;
  std::set<std::string> used;
  for (const auto& entry : fs::recursive_directory_iterator(source)) {
    const fs::path relative = fs::relative(entry.path(), source);
    const std::string name = relative.generic_string();
    if ((entry.path().extension() != ".h" && entry.path().extension() != ".cpp") ||
        running.count(relative.begin()->string()) || designs.count(name))
      continue;
    const auto lines = products(lines_of(entry.path()));
    if (lines.empty()) continue;
    bool allowed = false;
    for (const auto& [place, why] : places)
      if (name.rfind(place, 0) == 0) allowed = true, used.insert(place);
    if (!allowed)
      for (int line : lines) found.push_back(name + ":" + std::to_string(line));
  }
  EXPECT_THAT(found, ::testing::IsEmpty()) << "describe it in src/model/description, and read it off there";
  for (const auto& [place, why] : places) EXPECT_TRUE(used.count(place)) << place << " multiplies nothing any more";
}

TEST(Sizes, TheCheckItselfSeesASecondPlace) {
  EXPECT_THAT(products({"const double w = 2.0 * s.model.hidden * s.model.dense_ffn;"}), ::testing::SizeIs(1));
  EXPECT_THAT(products({"bytes = tokens * run_.model.hidden * size;"}), ::testing::SizeIs(1));
  EXPECT_THAT(products({"a.num_heads * a.head_dim", "double(a.num_heads) * a.head_dim"}), ::testing::SizeIs(2));
  EXPECT_THAT(products({"const double w = std::int64_t{m.hidden} * m.dense_ffn;"}), ::testing::SizeIs(1));
  EXPECT_THAT(products({"// tokens * hidden", "const double D = m.hidden;",
                        "if (a.head_dim > 0) return;"}),
              ::testing::IsEmpty());
}

}  // namespace
