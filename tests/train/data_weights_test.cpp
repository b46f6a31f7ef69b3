// How much documents and their parts count, from JSON to PREFIX.weights.
#include <gmock/gmock.h>

#include <cstring>

#include "train/data/build_dataset.h"
#include "train/data/json_document.h"
#include "train/data/weighted_spans.h"
#include "train/data_fixture.h"

namespace trireme::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(WeightedSpans, ATokenHasTheGreatestWeightOfWhatItStandsFor) {
  const WeightedSpans spans{{{2, 4}, 0.5f}, {{4, 6}, 2.0f}};
  EXPECT_EQ(weight_of(spans, {0, 2}), 0);
  EXPECT_EQ(weight_of(spans, {1, 3}), 0.5f);
  EXPECT_EQ(weight_of(spans, {3, 5}), 2);
  EXPECT_EQ(weight_of(spans, {0, 9}), 2);
  EXPECT_EQ(weight_of(spans, {6, 7}), 0);
  // Parts of a character, which stand for no byte of their own.
  EXPECT_EQ(weight_of(spans, {4, 4}), 2);
  EXPECT_EQ(weight_of(spans, {6, 6}), 0);
  EXPECT_EQ(weight_of({}, {3, 5}), 1);
}

TEST(JsonDocument, NumbersSpansAndCompletions) {
  EXPECT_THAT(read_json_document(R"({"text": "abc"})", {}).weights, IsEmpty());
  EXPECT_THAT(read_json_document(R"({"text": "abc", "w": 0.5})", {.weights = "w"}).weights,
              ElementsAre(WeightedSpan{{0, 3}, 0.5f}));
  // Characters of "é漢b": 2, 3 and 1 bytes.
  EXPECT_THAT(read_json_document(R"({"text": "é漢b", "w": [[2, 3, 2], [0, 1, 1]]})", {.weights = "w"}).weights,
              ElementsAre(WeightedSpan{{0, 2}, 1}, WeightedSpan{{5, 6}, 2}));
  EXPECT_THAT(read_json_document(R"({"text": "abc", "w": []})", {.weights = "w"}).weights,
              ElementsAre(WeightedSpan{{0, 3}, 0}));
  const JsonFields pair{.prompt = "p", .completion = "c"};
  const JsonDocument document = read_json_document(R"({"p": "é?", "c": "yes"})", pair);
  EXPECT_EQ(document.text, "é?yes");
  EXPECT_THAT(document.weights, ElementsAre(WeightedSpan{{3, 6}, 1}));
  EXPECT_THAT(
      read_json_document(R"({"p": "?", "c": "y", "w": 3})", {.prompt = "p", .completion = "c", .weights = "w"}).weights,
      ElementsAre(WeightedSpan{{1, 2}, 3}));
}

TEST(JsonDocument, BadWeightsSayWhatIsWrong) {
  const auto why = [](const char* line, const JsonFields& fields) -> std::string {
    try {
      read_json_document(line, fields);
    } catch (const BadDocument& e) {
      return e.what();
    }
    return "none";
  };
  const JsonFields weights{.weights = "w"};
  EXPECT_THAT(why(R"({"text": "abc"})", weights), HasSubstr("has no field \"w\"; it has \"text\""));
  EXPECT_THAT(why(R"({"text": "abc", "w": -1})", weights), HasSubstr("from 0 to"));
  EXPECT_THAT(why(R"({"text": "abc", "w": 1e39})", weights), HasSubstr("from 0 to 3.4e+38"));
  EXPECT_THAT(why(R"({"text": "abc", "w": "1"})", weights), HasSubstr("and this is a string"));
  EXPECT_THAT(why(R"({"text": "abc", "w": [[0, 4, 1]]})", weights), HasSubstr("no part of a text of 3 characters"));
  EXPECT_THAT(why(R"({"text": "abc", "w": [[2, 1, 1]]})", weights), HasSubstr("no part of a text"));
  EXPECT_THAT(why(R"({"text": "abc", "w": [[0, 1.5, 1]]})", weights),
              HasSubstr("expected a list of [begin, end, weight]"));
  EXPECT_THAT(why(R"({"text": "abc", "w": [[0, 2, 1], [1, 3, 1]]})", weights),
              HasSubstr("two spans share a character"));
  const JsonFields pair{.prompt = "p", .completion = "c"};
  EXPECT_THAT(why(R"({"p": "a", "c": ""})", pair), HasSubstr("\"c\" is empty"));
  EXPECT_THAT(why(R"({"p": "a"})", pair), HasSubstr("has no string \"c\""));
  EXPECT_THAT(why(R"({"p": "a", "c": "b", "w": []})", {.prompt = "p", .completion = "c", .weights = "w"}),
              HasSubstr("must be a number beside a prompt"));
}

class WeightFile : public DataTest {
 protected:
  std::vector<float> weights(const std::string& prefix) {
    const std::string bytes = read_file(prefix + ".weights");
    std::vector<float> out(bytes.size() / 4);
    std::memcpy(out.data(), bytes.data(), 4 * out.size());
    return out;
  }
  DataBuildResult build(DataBuildOptions options) {
    options.inputs = {path("a.jsonl")};
    options.output_prefix = path("d");
    options.valid_fraction = 0;
    return build_dataset(options);
  }
};

TEST_F(WeightFile, HoldsAValueATokenInTheTokensOrder) {
  write_file(path("a.jsonl"), "{\"p\": \"ab\", \"c\": \"cd\"}\n{\"p\": \"\", \"c\": \"e\"}\n");
  const JsonFields pair{.prompt = "p", .completion = "c"};
  const auto result = build({.documents = {.json = pair}, .prepend_bos = true});
  EXPECT_TRUE(result.train.weights);
  // Begin of text as the first character, end of text as the last.
  EXPECT_THAT(weights(path("d_train")), ElementsAre(0, 0, 0, 1, 1, 1, 1, 1, 1));
  EXPECT_EQ(TokenReader(path("d_train")).num_tokens(), 9);
  EXPECT_EQ(read_file(path("d_train.weights")).substr(12, 4), std::string("\0\0\x80\x3F", 4));  // 1.0f, IEEE 754
  EXPECT_THAT(build({.documents = {.json = pair}, .append_eos = false}).train.num_tokens, 5);
  EXPECT_THAT(weights(path("d_train")), ElementsAre(0, 0, 1, 1, 1));
}

TEST_F(WeightFile, ADataSetWithoutWeightsLeavesNoneOfBefore) {
  write_file(path("a.jsonl"), "{\"text\": \"ab\", \"w\": 2}\n");
  build({.documents = {.json = {.weights = "w"}}});
  EXPECT_THAT(weights(path("d_train")), ElementsAre(2, 2, 2));
  EXPECT_FALSE(build({}).train.weights);
  EXPECT_FALSE(std::filesystem::exists(path("d_train.weights")));
}

TEST_F(WeightFile, WeightsComeFromJsonAndNotAllAreZero) {
  write_file(path("a.jsonl"), "{\"text\": \"ab\", \"w\": 0}\n");
  EXPECT_THAT(config_error_of([&] { build({.documents = {.json = {.weights = "w"}}}); }),
              HasSubstr("every training token weighs 0"));
  EXPECT_THAT(config_error_of([&] { build({.documents = {.rule = DocumentRule::line, .json = {.weights = "w"}}}); }),
              HasSubstr("is not read as JSON lines"));
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) EXPECT_EQ(entry.path().extension(), ".jsonl");
}

}  // namespace
}  // namespace trireme::train
