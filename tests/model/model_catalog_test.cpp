#include "model/model_catalog.h"

#include <gmock/gmock.h>

#include <fstream>

#include "base/errors.h"

namespace trireme::model {
namespace {

namespace fs = std::filesystem;
const fs::path shipped = TRIREME_SOURCE_DIR "/configs/models";

std::string error_of(const std::string& name, const fs::path& folder = shipped) {
  try {
    find_model(name, folder);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}

TEST(ModelCatalog, KeysLeaveCaseAndPunctuationOut) {
  EXPECT_EQ(model_key("DeepSeek-V3"), "deepseek_v3");
  EXPECT_EQ(model_key("Pangu-Ultra-135B (dense)"), "pangu_ultra_135b_dense");
  EXPECT_EQ(model_key("  --"), "");
}

TEST(ModelCatalog, FindsByFileAndByName) {
  EXPECT_EQ(find_model("deepseek_v3", shipped).num_layers, 61);
  EXPECT_EQ(find_model("DeepSeek-V3", shipped), find_model("deepseek_v3", shipped));
  EXPECT_EQ(find_model("Pangu-Ultra-MoE-718B", shipped), find_model("pangu_ultra_moe", shipped));
  EXPECT_EQ(find_model("deepseek_v3", shipped, {"model.num_layers=8"}).num_layers, 8);
  EXPECT_EQ(find_model((shipped / "tiny.toml").string(), "nowhere").name, "tiny");
  const ModelCatalog catalog(shipped);
  EXPECT_EQ(catalog.find("europa_951b")->hidden, 6144);
  EXPECT_EQ(catalog.find("nothing like it"), std::nullopt);
  EXPECT_THAT(catalog.names(), testing::IsSupersetOf({"deepseek_v3", "pangu_ultra_moe", "europa_951b"}));
}

TEST(ModelCatalog, UnknownNamesSuggestTheNearest) {
  EXPECT_EQ(error_of("deepsek_v3"),
            "model = deepsek_v3: no such model in " + shipped.string() + "; did you mean deepseek_v3?");
  EXPECT_EQ(error_of("DeepSeek V-3"),
            "model = DeepSeek V-3: no such model in " + shipped.string() + "; did you mean deepseek_v3?");
  EXPECT_THAT(error_of("zzzzzzzzzzzz"),
              testing::AllOf(testing::HasSubstr("no such model in"), testing::HasSubstr("there are deepseek_v2, ")));
  EXPECT_EQ(error_of("deepseek_v3", "nowhere"), "nowhere: no such folder of model files, or it cannot be read");
  EXPECT_THAT(error_of("absent.toml"), testing::HasSubstr("absent.toml"));
}

}  // namespace
}  // namespace trireme::model
