// Where a run goes on in its data: another batch, another blend, other data.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>

#include "train/data/training_data.h"
#include "train/data_fixture.h"

namespace trireme::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Position : public DataTest {
 protected:
  // A set of `windows` windows of 4 tokens, the first token of each document telling the set: documents of 4 tokens,
  // all different.
  std::string make_set(const std::string& name, std::int32_t first_token, int windows = 100) {
    std::vector<std::vector<std::int32_t>> documents;
    for (int d = 0; d <= windows; ++d) {
      const std::int32_t t = first_token + 4 * d;
      documents.push_back({t, t + 1, t + 2, t + 3});
    }
    return write_tokens(name, documents);
  }

  plan::RunSpec run_of(std::vector<plan::DataSet> sets) {
    plan::RunSpec run;
    run.file = "run.toml";
    run.model.vocab_size = 60000;
    run.batch = {.sequence_length = 4, .micro_batch = 1, .global_batch = 8};
    run.data.train = std::move(sets);
    return run;
  }

  // The tokens of the sequences that `steps` steps of this batch read, beginning at `seen`.
  static std::vector<std::vector<std::int64_t>> read_steps(const TrainingData& data, plan::BatchSpec batch,
                                                           std::int64_t& seen, int steps) {
    std::vector<std::vector<std::int64_t>> out;
    for (int step = 0; step < steps; ++step, seen += batch.global_batch)
      for (std::int64_t mb = 0; mb < batch.num_micro_batches(2); ++mb)
        for (int dp = 0; dp < 2; ++dp)
          out.push_back(read_sequence(data, first_sequence(batch, 2, seen, dp, mb)).tokens);
    return out;
  }

  static nlohmann::json state(const TrainingData& data, std::int64_t seen) {
    nlohmann::json out = data.state(seen);
    out["step"] = 8;
    return nlohmann::json::parse(out.dump());
  }

  std::string refusal(const plan::RunSpec& run, const nlohmann::json& of_checkpoint) {
    return config_error_of([&] { open_training(run)->resume(of_checkpoint, "state.json"); });
  }
};

// 8 steps of 8 sequences, then steps of 4: together they read the first windows of an epoch, each once. Counting steps,
// step 9 with a batch of 4 would have begun at sequence 8 * 4 = 32, which was read before.
TEST_F(Position, AnotherBatchReadsNoWindowTwice) {
  plan::RunSpec run = run_of({{.prefix = make_set("a", 0, 200)}});
  auto data = open_training(run);
  std::int64_t seen = 0;
  auto sequences = read_steps(*data, run.batch, seen, 8);
  ASSERT_EQ(seen, 64);

  run.batch.global_batch = 4;
  auto resumed = open_training(run);
  const auto goes_on = resumed->resume(state(*data, seen), "state.json");
  EXPECT_EQ(goes_on.sequences_seen, 64);
  EXPECT_THAT(goes_on.messages, IsEmpty());
  seen = goes_on.sequences_seen;
  for (auto& s : read_steps(*resumed, run.batch, seen, 8)) sequences.push_back(std::move(s));
  EXPECT_EQ(seen, 96);
  EXPECT_EQ(std::set(sequences.begin(), sequences.end()).size(), 96u);
  // And none is left out: they are the first 96 of the set's own order.
  std::set<std::vector<std::int64_t>> first;
  for (std::int64_t n = 0; n < 96; ++n) first.insert(read_sequence(*data, n).tokens);
  EXPECT_EQ(std::set(sequences.begin(), sequences.end()), first);
}

TEST_F(Position, OneSetIsReadAsItAlwaysWas) {
  const plan::RunSpec run = run_of({{.prefix = make_set("a", 0)}});
  const auto data = open_training(run);
  const auto plain = training_source(std::make_shared<const TokenReader>(path("a")), {.sequence_length = 4, .seed = 1});
  for (std::int64_t n = 0; n < 250; ++n) EXPECT_EQ(read_sequence(*data, n), read_sequence(*plain, n));
}

// 3 : 1 of two sets: of 40 sequences 30 and 10, each the set's own first ones.
TEST_F(Position, ABlendTakesEachSetInItsOwnOrder) {
  const std::string a = make_set("a", 0), b = make_set("b", 1000);
  const auto blend = open_training(run_of({{.prefix = a, .weight = 3}, {.prefix = b}}));
  const auto only_a = open_training(run_of({{.prefix = a}})), only_b = open_training(run_of({{.prefix = b}}));
  std::int64_t of_a = 0, of_b = 0;
  for (std::int64_t n = 0; n < 40; ++n) {
    const StoredSequence s = read_sequence(*blend, n);
    const bool from_a = s.tokens[0] < 1000;
    EXPECT_EQ(s, from_a ? read_sequence(*only_a, of_a++) : read_sequence(*only_b, of_b++));
  }
  EXPECT_EQ(of_a, 30);
  EXPECT_EQ(of_b, 10);
  EXPECT_EQ(blend->position().tokens_of_sets(40), (std::map<std::string, std::int64_t>{{"a", 120}, {"b", 40}}));
  EXPECT_EQ(state(*blend, 40)["data"]["tokens"], (nlohmann::json{{"a", 120}, {"b", 40}}));
}

// After 40 sequences of 3 : 1 the weights become 1 : 1 and a set c comes in: a goes on at its 30th, b at its 10th, c at
// its first. Then a rests, and comes back where it stopped.
TEST_F(Position, AnotherBlendGoesOnFromEachSetsOwnPosition) {
  const std::string a = make_set("a", 0), b = make_set("b", 1000), c = make_set("c", 2000);
  const auto first = open_training(run_of({{.prefix = a, .weight = 3}, {.prefix = b}}));
  auto second = open_training(run_of({{.prefix = a}, {.prefix = b}, {.prefix = c}}));
  const auto resumed = second->resume(state(*first, 40), "state.json");
  EXPECT_THAT(
      resumed.messages,
      ElementsAre("data.train: the blend was a 3, b 1 and is a 1, b 1, c 1; added c; a at its sequence 30, b at its "
                  "sequence 10, c at its sequence 0"));
  const auto only_a = open_training(run_of({{.prefix = a}})), only_c = open_training(run_of({{.prefix = c}}));
  std::int64_t of_a = 30, of_c = 0;
  for (std::int64_t n = 40; n < 70; ++n) {
    const StoredSequence s = read_sequence(*second, n);
    if (s.tokens[0] < 1000) {
      EXPECT_EQ(s, read_sequence(*only_a, of_a++));
    }
    if (s.tokens[0] >= 2000) {
      EXPECT_EQ(s, read_sequence(*only_c, of_c++));
    }
  }
  EXPECT_EQ(of_a, 40);
  EXPECT_EQ(of_c, 10);
  // The same blend again: nothing to say, and the very same order.
  auto same = open_training(run_of({{.prefix = a}, {.prefix = b}, {.prefix = c}}));
  EXPECT_THAT(same->resume(state(*second, 70), "state.json").messages, IsEmpty());
  for (std::int64_t n = 70; n < 90; ++n) EXPECT_EQ(read_sequence(*same, n), read_sequence(*second, n));

  auto without_a = open_training(run_of({{.prefix = b}, {.prefix = c}}));
  EXPECT_THAT(without_a->resume(state(*second, 70), "state.json").messages, ElementsAre(HasSubstr("removed a")));
  auto with_a = open_training(run_of({{.prefix = a}, {.prefix = b}, {.prefix = c}}));
  EXPECT_THAT(with_a->resume(state(*without_a, 80), "state.json").messages,
              ElementsAre(HasSubstr("a at its sequence 40")));
  // a 30 + 10, b 10 + 10 + 5, c 10 + 5, of 4 tokens each.
  EXPECT_EQ(with_a->position().tokens_of_sets(80),
            (std::map<std::string, std::int64_t>{{"a", 160}, {"b", 100}, {"c", 60}}));
}

TEST_F(Position, AnotherSeedIsRefusedUnlessAllowed) {
  plan::RunSpec run = run_of({{.prefix = make_set("a", 0)}});
  const auto before = state(*open_training(run), 64);
  run.train.seed = 2;
  EXPECT_EQ(
      refusal(run, before),
      "run.toml: train.seed = 2: the checkpoint's run had 1, which is another order of the data. Resume with what it "
      "had, or let it pass with checkpoint.allow_changes = [\"seed\"]");
  run.checkpoint.allow_changes = {"data"};
  EXPECT_THAT(refusal(run, before), HasSubstr("train.seed = 2"));
  run.checkpoint.allow_changes = {"seed"};
  const auto resumed = open_training(run)->resume(before, "state.json");
  EXPECT_EQ(resumed.sequences_seen, 64);
  EXPECT_THAT(resumed.messages, ElementsAre(HasSubstr("WARNING: train.seed = 2")));
}

TEST_F(Position, OtherDataIsRefusedUnlessAllowed) {
  plan::RunSpec run = run_of({{.prefix = make_set("a", 0)}});
  const auto before = state(*open_training(run), 64);
  // The same name and as many tokens, one of them another.
  std::filesystem::create_directories(folder_ / "other");
  const std::string other = make_set("other/a", 1);
  run.data.train = {{.prefix = other}};
  EXPECT_THAT(refusal(run, before), HasSubstr("data.train = " + other + ": holds 404 tokens (fingerprint "));
  // Another name and other content: nothing is left of what was.
  run.data.train = {{.prefix = make_set("b", 1)}};
  EXPECT_THAT(refusal(run, before), HasSubstr("no set of the checkpoint's run is left: it had a 1"));
  run.checkpoint.allow_changes = {"seed", "data"};
  auto data = open_training(run);
  EXPECT_THAT(data->resume(before, "state.json").messages,
              ElementsAre(HasSubstr("WARNING: data.train = b 1"), HasSubstr("b at its sequence 0")));
  EXPECT_EQ(read_sequence(*data, 64), read_sequence(*open_training(run), 0));
}

TEST_F(Position, AFileOfAnotherNameWithTheSameContentIsTheSameSet) {
  plan::RunSpec run = run_of({{.prefix = make_set("a", 0)}});
  const auto before = state(*open_training(run), 64);
  run.data.train = {{.prefix = make_set("moved", 0)}};
  auto data = open_training(run);
  EXPECT_THAT(data->resume(before, "state.json").messages, ElementsAre("data.train: \"a\" is now named \"moved\""));
  EXPECT_EQ(read_sequence(*data, 64), read_sequence(*open_training(run), 64));
}

// 64 sequences of 4 tokens are 256: 37 of 7, the last one begun.
TEST_F(Position, AnotherSequenceLengthCountsTokens) {
  plan::RunSpec run = run_of({{.prefix = make_set("a", 0)}});
  const auto before = state(*open_training(run), 64);
  run.batch.sequence_length = 7;
  EXPECT_THAT(refusal(run, before), HasSubstr("batch.sequence_length = 7: the checkpoint's run had 4"));
  run.checkpoint.allow_changes = {"data"};
  auto data = open_training(run);
  EXPECT_THAT(data->resume(before, "state.json").messages,
              ElementsAre(HasSubstr("WARNING: batch.sequence_length = 7"), HasSubstr("a at its sequence 37")));
  EXPECT_EQ(data->position().tokens_of_sets(64), (std::map<std::string, std::int64_t>{{"a", 256}}));
  EXPECT_EQ(data->position().tokens_of_sets(66), (std::map<std::string, std::int64_t>{{"a", 256 + 14}}));
}

// What checkpoints held before: 8 steps of 8 sequences of 4 tokens.
TEST_F(Position, ACheckpointOfAnOlderProgramIsUnderstoodOrRefused) {
  plan::RunSpec run = run_of({{.prefix = make_set("a", 0)}});
  const nlohmann::json old{{"step", 8}, {"seed", 1}, {"tokens_seen", 256}, {"optimizer_steps", 8}};
  const auto resumed = open_training(run)->resume(old, "state.json");
  EXPECT_EQ(resumed.sequences_seen, 64);
  EXPECT_THAT(resumed.messages, ElementsAre(HasSubstr("it is sequence 64, 8 steps of batch.global_batch = 8")));
  run.batch.global_batch = 4;
  EXPECT_THAT(refusal(run, old), HasSubstr("sequences_seen: is missing: an older program wrote this checkpoint"));
  run.batch.global_batch = 8;
  run.train.seed = 5;
  EXPECT_THAT(refusal(run, old), HasSubstr("train.seed = 5: the checkpoint's run had 1"));
}

TEST_F(Position, AStateThatIsNoneIsNamedByFileAndKey) {
  const plan::RunSpec run = run_of({{.prefix = make_set("a", 0)}});
  const auto good = state(*open_training(run), 64);
  const auto with = [&](const std::string& pointer, const nlohmann::json& value) {
    nlohmann::json bad = good;
    bad[nlohmann::json::json_pointer(pointer)] = value;
    return refusal(run, bad);
  };
  EXPECT_EQ(refusal(run, good), "no error");
  EXPECT_EQ(with("/sequences_seen", "x"), "state.json: sequences_seen: must be a whole number of at least 0");
  EXPECT_EQ(with("/data", 3), "state.json: data: must be an object");
  EXPECT_THAT(with("/data/blend_start", 65), HasSubstr("data.blend_start = 65: is behind sequences_seen (64)"));
  EXPECT_THAT(with("/data/blend_start", -1), HasSubstr("must be a whole number of at least 0"));
  EXPECT_THAT(with("/data/sequence_length", 0), HasSubstr("must be above 0"));
  EXPECT_THAT(with("/data/sets", nlohmann::json::array()), HasSubstr("data.sets = []: must be a list"));
  EXPECT_THAT(with("/data/sets/0/weight", 0), HasSubstr("weight above 0"));
  EXPECT_THAT(with("/data/sets/0/first", 1e300), HasSubstr("data.sets[0].first"));
  EXPECT_THAT(with("/data/sets/0/name", nullptr), HasSubstr("data.sets[0].name = null: must be a string"));
  EXPECT_THAT(with("/data/sets/1", good["data"]["sets"][0]), HasSubstr("is there twice"));
}

}  // namespace
}  // namespace trireme::train
