#include "base/key_aliases.h"

#include <gtest/gtest.h>

#include "base/config_table.h"
#include "base/errors.h"

namespace trireme {
namespace {

const std::vector<std::string> known = {"train.optimizer.learning_rate", "batch.global_batch", "model.hidden"};

TEST(KeyAliases, AreThoseOfOtherTrainers) {
  EXPECT_EQ(key_by_alias("train.optimizer.lr", known), "train.optimizer.learning_rate");   // Megatron-LM, torchtitan
  EXPECT_EQ(key_by_alias("global-batch-size", known), "batch.global_batch");               // an option's spelling
  EXPECT_EQ(key_by_alias("model.hidden_size", known), "model.hidden");                     // config.json
  EXPECT_EQ(key_by_alias("training.LR", known), "train.optimizer.learning_rate");
}

TEST(KeyAliases, AreNoneWhereTheFileHasNoSuchKey) {
  EXPECT_EQ(key_by_alias("lr", {"a.b"}), "");
  EXPECT_EQ(key_by_alias("zebra", known), "");
}

TEST(KeyAliases, AreHintsOfTheTable) {
  ConfigTable t = ConfigTable::from_text("[train.optimizer]\nlr = 1\n", "r.toml");
  t.table("train").table("optimizer").number_or("learning_rate", 1);
  try {
    t.finish();
    FAIL() << "accepted";
  } catch (const ConfigError& e) {
    EXPECT_STREQ(e.what(), "r.toml: train.optimizer.lr = 1: unknown key; did you mean train.optimizer.learning_rate?");
  }
}

}  // namespace
}  // namespace trireme
