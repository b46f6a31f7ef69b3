#include "base/config_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/errors.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}

const char* kText = R"(name = "r"
steps = 3
rate = 1
[layout]
pp = 2
layers = [1, 2]
[[experts]]
x = 1
)";

TEST(ConfigTable, ReadsTypedValuesAndDefaults) {
  auto t = ConfigTable::from_text(kText, "r.toml");
  EXPECT_EQ(t.string("name"), "r");
  EXPECT_EQ(t.integer("steps", 1), 3);
  EXPECT_EQ(t.number("rate"), 1.0);  // an integer is a number
  EXPECT_EQ(t.integer_or("absent", 9), 9);
  auto layout = t.table("layout");
  EXPECT_EQ(layout.integer("pp"), 2);
  EXPECT_THAT(layout.integers_or("layers", {}), ElementsAre(1, 2));
  EXPECT_EQ(t.tables("experts").at(0).integer("x"), 1);
  EXPECT_FALSE(t.table("nowhere").has("x"));
  EXPECT_EQ(t.table("nowhere").integer_or("x", 4), 4);
  t.finish();
}

TEST(ConfigTable, UnknownKeyIsAnErrorWithTheNearestSuggestion) {
  auto t = ConfigTable::from_text("pp = 1\n[layout]\npp = 2\nep = 1\n", "r.toml");
  auto layout = t.table("layout");
  layout.integer_or("pp", 1);
  layout.integer_or("ep", 1);
  EXPECT_EQ(error_of([&] { t.finish(); }), "r.toml: pp = 1: unknown key; did you mean layout.pp?");

  auto u = ConfigTable::from_text("[train]\nlearning_rat = 0.1\n", "r.toml");
  u.table("train").number_or("learning_rate", 0);
  EXPECT_EQ(error_of([&] { u.finish(); }),
            "r.toml: train.learning_rat = 0.1: unknown key; did you mean train.learning_rate?");

  auto far = ConfigTable::from_text("zebra = {a = 1}\n", "r.toml");
  far.integer_or("steps", 0);
  EXPECT_EQ(error_of([&] { far.finish(); }), "r.toml: zebra = { ... }: unknown key");
}

TEST(ConfigTable, WrongTypeNamesBothTypes) {
  auto t = ConfigTable::from_text("a = \"3\"\nb = 1.5\nc = 1\nd = [1, \"x\"]\n[e]\n", "r.toml");
  EXPECT_EQ(error_of([&] { t.integer("a"); }), "r.toml: a = \"3\": expected an integer, found a string");
  EXPECT_EQ(error_of([&] { t.integer("b"); }), "r.toml: b = 1.5: expected an integer, found a floating-point number");
  EXPECT_EQ(error_of([&] { t.boolean_or("c", true); }), "r.toml: c = 1: expected true or false, found an integer");
  EXPECT_EQ(error_of([&] { t.string("c"); }), "r.toml: c = 1: expected a string, found an integer");
  EXPECT_EQ(error_of([&] { t.integers_or("d", {}); }),
            "r.toml: d = [ 1, \"x\" ]: expected an array of integers, found a string in it");
  EXPECT_EQ(error_of([&] { t.table("c"); }), "r.toml: c = 1: expected a table, found an integer");
  EXPECT_EQ(error_of([&] { t.number("e"); }), "r.toml: e = {}: expected a number, found a table");
}

TEST(ConfigTable, RangesMissingKeysAndChoices) {
  auto t = ConfigTable::from_text("a = 0\nk = \"sine\"\nx = nan\nlearning_rats = 1", "r.toml");
  EXPECT_EQ(error_of([&] { t.integer("a", 1); }), "r.toml: a = 0: must be at least 1");
  EXPECT_EQ(error_of([&] { t.integer("a", 1, 5); }), "r.toml: a = 0: must lie in [1, 5]");
  EXPECT_EQ(error_of([&] { t.number("a", -2.0, -0.5); }), "r.toml: a = 0: must lie in [-2, -0.5]");
  EXPECT_EQ(error_of([&] { t.number("x", 0.0); }), "r.toml: x = nan: must be a number");
  EXPECT_EQ(error_of([&] {
              t.one_of_or("k", "cosine", {"cosine", "wsd"});
            }),
            "r.toml: k = \"sine\": must be one of cosine, wsd");
  EXPECT_EQ(error_of([&] { t.integer("steps"); }), "r.toml: steps: is missing: an integer is needed");
  EXPECT_EQ(error_of([&] { t.number("learning_rate"); }),
            "r.toml: learning_rate: is missing: a number is needed (found learning_rats)");
  EXPECT_EQ(error_of([&] { t.fail("a", "must be even bigger"); }), "r.toml: a = 0: must be even bigger");
}

TEST(ConfigTable, OverridesAreTomlOrBareWords) {
  auto t = ConfigTable::from_text(kText, "r.toml",
                                  {"layout.pp=3", "name=1f1b", "train.optimizer.eps = 1e-8", "layout.layers=[4]",
                                   "path=../x/y", "flag=true", "quoted=\"a b\""});
  EXPECT_EQ(t.string("name"), "1f1b");
  EXPECT_EQ(t.table("layout").integer("pp"), 3);
  EXPECT_THAT(t.table("layout").integers_or("layers", {}), ElementsAre(4));
  EXPECT_EQ(t.table("train").table("optimizer").number("eps"), 1e-8);
  EXPECT_EQ(t.string("path"), "../x/y");
  EXPECT_TRUE(t.boolean_or("flag", false));
  EXPECT_EQ(t.string("quoted"), "a b");
  EXPECT_TRUE(t.overridden("name"));
  EXPECT_FALSE(t.overridden("steps"));
}

TEST(ConfigTable, OverrideErrorsNameTheCommandLine) {
  const auto table = [](const char* o) { return ConfigTable::from_text(kText, "r.toml", {o}); };
  auto t = table("layout.qq=3");
  t.string("name"), t.integer("steps"), t.number("rate"), t.tables("experts").at(0).integer("x");
  t.table("layout").integer("pp");
  t.table("layout").integers_or("layers", {});
  EXPECT_EQ(error_of([&] { t.finish(); }), "--set: layout.qq = 3: unknown key; did you mean layout.pp?");
  auto wrong = table("steps=many");
  EXPECT_EQ(error_of([&] { wrong.integer("steps"); }), "--set: steps = \"many\": expected an integer, found a string");
  EXPECT_EQ(error_of([&] { table("steps"); }), "--set: steps: expected KEY=VALUE, such as layout.pp=2");
  EXPECT_EQ(error_of([&] { table("steps.x=1"); }), "--set: steps.x: steps is not a table");
  EXPECT_THAT(error_of([&] { table("name=\"x"); }), ::testing::StartsWith("--set: name = \"x: not valid TOML"));
}

// 9223372036854775807 is no double: it reads as the nearest one.
TEST(ConfigTable, NumbersAreFiniteAndWithinReason) {
  auto t = ConfigTable::from_text(
      "large = 9223372036854775807\nx = inf\ny = 1e31\nz = 1e-31\nlist = [1, nan]\nbelow = [1, -2]\nn = [1, 7]\n"
      "long = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25]\n",
      "r.toml");
  EXPECT_EQ(t.number("large"), 9223372036854775808.0);
  EXPECT_EQ(error_of([&] { t.number("x", 0); }), "r.toml: x = inf: must be at most 1e+30");
  EXPECT_EQ(error_of([&] { t.number("y"); }), "r.toml: y = 1e+31: must be at most 1e+30");
  EXPECT_EQ(error_of([&] { t.number("z"); }), "r.toml: z = 1e-31: must be 0 or at least 1e-30 in magnitude");
  EXPECT_EQ(error_of([&] { t.numbers_or("list", {}); }), "r.toml: list = [ 1, nan ]: must be a number");
  EXPECT_EQ(error_of([&] { t.numbers_or("below", {}, 0); }), "r.toml: below = [ 1, -2 ]: must be at least 0");
  EXPECT_EQ(error_of([&] { t.integers_or("n", {}, 0, 5); }), "r.toml: n = [ 1, 7 ]: holds 7: each must lie in [0, 5]");
  EXPECT_THAT(t.integers_or("absent", {9}, 0, 5), ElementsAre(9));  // a default is the caller's
  EXPECT_THAT(error_of([&] { t.string("long"); }), ::testing::HasSubstr(", ... ]: expected a string"));
}

TEST(ConfigTable, ErrorsAreOneLine) {
  auto t = ConfigTable::from_text("a = [\n  1,\n  [2, \"x\\ny\"],\n]\nb = \"\"\"two\nlines\"\"\"\n", "r.toml");
  EXPECT_EQ(error_of([&] { t.integer("a"); }),
            "r.toml: a = [ 1, [ 2, \"x y\" ] ]: expected an integer, found an array");
  EXPECT_EQ(error_of([&] { t.integer("b"); }), "r.toml: b = \"two lines\": expected an integer, found a string");
}

TEST(ConfigTable, OverridesThatSayLessOrMoreThanOneKey) {
  const auto error = [](const char* o) { return error_of([&] { ConfigTable::from_text(kText, "r.toml", {o}); }); };
  for (const char* o : {"layout.=1", ".pp=1", "layout..pp=1", ".=1"})
    EXPECT_EQ(error(o), fmt::format("--set: {}: a part of the key is empty: expected such as layout.pp=2", o))
        << o;
  EXPECT_EQ(error("layout.pp=2\nsteps=4"), "--set: layout.pp = several lines: one KEY=VALUE each");
  EXPECT_THAT(error("steps=99999999999999999999"), ::testing::StartsWith("--set: steps = 99999999999999999999: not valid"));
  EXPECT_EQ(error("name=\xff"), "--set: name=\\xff: not UTF-8");
}

TEST(ConfigTable, GivenKeysReachIntoTables) {
  const auto t = ConfigTable::from_text("", "--set", {"layout={pp=2, overlap={experts=true}}", "batch.micro_batch=1"});
  EXPECT_THAT(t.given(), ::testing::UnorderedElementsAre("layout.pp", "layout.overlap.experts", "batch.micro_batch"));
}

TEST(ConfigTable, BadFiles) {
  EXPECT_EQ(error_of([] { ConfigTable::from_file("/"); }), "/: is a folder: expected a file");
  EXPECT_EQ(error_of([] { ConfigTable::from_file("/dev/zero"); }), "/dev/zero: is longer than 128 MiB");
  EXPECT_EQ(error_of([] { ConfigTable::from_file("/nonexistent/r.toml"); }),
            "/nonexistent/r.toml: no such file, or it cannot be read");
  EXPECT_THAT(error_of([] { ConfigTable::from_text("a = 1\nb = = 2\n", "r.toml"); }),
              ::testing::StartsWith("r.toml:2:"));
}

TEST(ConfigTable, WritesItselfWithOverrides) {
  const auto t = ConfigTable::from_text(kText, "r.toml", {"layout.pp=5"});
  auto again = ConfigTable::from_text(t.to_toml(), "again.toml");
  EXPECT_EQ(again.table("layout").integer("pp"), 5);
  EXPECT_EQ(again.string("name"), "r");
}

}  // namespace
}  // namespace trireme
