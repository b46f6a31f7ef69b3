#include "plan/run_spec.h"

#include <unistd.h>

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "base/errors.h"

namespace trireme::plan {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const char* kRun = R"(name = "r"
folder = "../out/r"
[model]
vocab_size = 264
hidden = 64
num_layers = 4
dense_ffn = 128
num_dense_layers = 1
[model.attention]
num_heads = 4
[model.moe]
num_experts = 16
expert_ffn = 32
[model.moe.router]
top_k = 2
[layout]
pp = 2
ep = 2
schedule = "gpipe"
[batch]
sequence_length = 128
micro_batch = 2
global_batch = 24
[train]
steps = 30
eval_sequences = 8
[train.optimizer]
learning_rate = 1e-3
[train.schedule]
kind = "wsd"
decay_steps = 5
[data]
train = "tokens/t"
valid = "tokens/v"
[device]
dtype = "bfloat16"
)";

std::string error_of(const std::vector<std::string>& overrides, const std::string& text = kRun) {
  try {
    parse_run(text, "configs/r.toml", overrides);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}

TEST(RunSpec, ReadsKeysAndDefaults) {
  const RunSpec run = parse_run(kRun, "/configs/r.toml");
  EXPECT_EQ(run.name, "r");
  EXPECT_EQ(run.layout.pp, 2);
  EXPECT_EQ(run.layout.dp, 0);
  EXPECT_EQ(run.layout.schedule, "gpipe");
  EXPECT_EQ(run.batch.sequence_length, 128);
  EXPECT_EQ(run.train.optimizer.learning_rate, 1e-3);
  EXPECT_EQ(run.train.optimizer.beta2, 0.95);
  EXPECT_EQ(run.train.schedule.kind, "wsd");
  EXPECT_EQ(run.device.dtype, DType::bfloat16);
  EXPECT_EQ(run.device.reduce_dtype, DType::float32);  // max(float32, dtype)
  EXPECT_EQ(parse_run(kRun, "r.toml", {"device.dtype=float64"}).device.reduce_dtype, DType::float64);
  // Paths are relative to the file.
  EXPECT_EQ(run.folder, "/out/r");
  EXPECT_EQ(run.data.train.at(0).prefix, "/configs/tokens/t");
  EXPECT_EQ(parse_run(kRun, "/configs/r.toml", {"data.train=random"}).data.train.at(0).prefix, "random");
}

TEST(RunSpec, PathsOfTheCommandLineAreRelativeToTheCurrentFolder) {
  const RunSpec run = parse_run(kRun, "/configs/r.toml", {"data.train=x/t", "folder=/abs/f"});
  EXPECT_EQ(run.data.train.at(0).prefix, (fs::current_path() / "x/t").string());
  EXPECT_EQ(run.folder, "/abs/f");
  EXPECT_EQ(run.data.valid.at(0).prefix, "/configs/tokens/v");
}

TEST(RunSpec, ReadsBlends) {
  const std::vector<std::string> overrides = {
      R"(data.train=[{path="a/x", weight=3}, {path="/b/y", name="code"}, {path="random"}])"};
  const RunSpec run = parse_run(kRun, "/configs/r.toml", overrides);
  ASSERT_EQ(run.data.train.size(), 3u);
  EXPECT_EQ(run.data.train[0].prefix, (fs::current_path() / "a/x").string());
  EXPECT_EQ(run.data.train[0].weight, 3);
  EXPECT_EQ(name_of(run.data.train[0]), "x");
  EXPECT_EQ(name_of(run.data.train[1]), "code");
  EXPECT_EQ(run.data.train[2].prefix, "random");
  EXPECT_EQ(parse_run(to_toml(run), run.file), run);
  EXPECT_EQ(error_of({R"(data.train=[{path="a/x"}, {path="b/x"}])"}),
            "--set: data.train[1].path = \"b/x\": is the second set with the name \"x\": give each a name of its own");
  EXPECT_EQ(error_of({R"(data.train=[{path="a/x", weight=0}])"}), "--set: data.train[0].weight = 0: must be above 0");
}

TEST(RunSpec, ReadsWhatTrainersAreAskedFor) {
  const RunSpec run = parse_run(kRun, "/configs/r.toml",
                                {"train.eval_sequences=all", "checkpoint.keep=0", "train.schedule.kind=linear",
                                 "train.freeze=[\"*.router.*\"]", "checkpoint.allow_changes=[\"seed\"]",
                                 "train.loss_spike.action=rewind", "train.max_skipped_updates=3"});
  EXPECT_EQ(run.train.eval_sequences, all_sequences);
  EXPECT_EQ(run.checkpoint.keep, 0);
  EXPECT_THAT(run.train.freeze, ElementsAre("*.router.*"));
  EXPECT_EQ(run.train.loss_spike.action, "rewind");
  EXPECT_EQ(run.train.max_skipped_updates, 3);
  EXPECT_EQ(parse_run(to_toml(run), run.file), run);
  EXPECT_EQ(error_of({"train.eval_sequences=many"}),
            "--set: train.eval_sequences = \"many\": must be a number of sequences or \"all\"");
  EXPECT_EQ(error_of({"checkpoint.allow_changes=[\"model\"]"}),
            "--set: checkpoint.allow_changes = [ \"model\" ]: must be a list of \"seed\", \"data\"");
}

TEST(RunSpec, WritesWhatItReads) {
  const RunSpec run = parse_run(kRun, "configs/r.toml",
                                {"layout.stage_layers=[3,1]", "platform=p.toml", "checkpoint.initial=w",
                                 "checkpoint.every=7", "device.reduce_dtype=bfloat16", "layout.dp=2", "timeout_s=5.5",
                                 "train.seed=9", "data.reset_at_documents=false"});
  EXPECT_THAT(run.layout.stage_layers, ElementsAre(3, 1));
  EXPECT_EQ(parse_run(to_toml(run), run.file), run);
  const RunSpec plain = parse_run(kRun, "configs/r.toml");
  EXPECT_EQ(parse_run(to_toml(plain), plain.file), plain);
}

std::string published_run(const std::string& lines) {
  return std::string(kRun) + "[published]\n" + lines;
}
const char* const kFigure = R"(value = 23.5
unit = "mfu_percent"
source = "a paper"
devices = 64
)";

TEST(RunSpec, APublishedFigureIsAPartOfItsOwn) {
  EXPECT_FALSE(parse_run(kRun, "r.toml").published);
  const RunSpec run = parse_run(published_run(std::string(kFigure) + R"(range = [20, 25.5]
assumed = ["a batch", "peak"]
stack = "uncalibrated"
set = ["model.num_layers=2", "load.cv=0.5"]
GFLOP_per_token = 12.5
peak_TFLOPps = 256
[published.flops]
square = "full"
head = false
)"),
                                "configs/r.toml", {"model.num_layers=4"});
  ASSERT_TRUE(run.published);
  EXPECT_EQ(run.published->value, 23.5);
  EXPECT_EQ(run.published->low, 20);
  EXPECT_EQ(run.published->high, 25.5);
  EXPECT_EQ(run.published->unit, FigureUnit::mfu_percent);
  EXPECT_EQ(run.published->devices, 64);
  EXPECT_EQ(run.published->flops_per_token, 12.5e9);
  EXPECT_EQ(run.published->peak_flops_per_s, 256e12);
  EXPECT_EQ(run.published->flops.square, model::AttentionSquare::full);
  EXPECT_FALSE(run.published->flops.head);
  EXPECT_THAT(run.published->assumed, ElementsAre("a batch", "peak"));
  EXPECT_EQ(parse_run(to_toml(run), run.file).published, run.published);
}

TEST(RunSpec, APublishedFigureMayBeOfWhatCannotBeTrained) {
  // Experts over lent tensor ranks: 32 of 48 x 8, which no 48 alone hold; Megatron's allgather dispatcher, which is
  // priced only.
  const std::vector<std::string> layout = {"layout.tp=8", "layout.dp=48", "layout.ep=16", "batch.global_batch=96",
                                           "layout.all_to_all=allgather"};
  EXPECT_EQ(parse_run(published_run(kFigure), "r.toml", layout).layout.ep, 16);
  EXPECT_THAT(error_of(layout), HasSubstr("layout.all_to_all"));
  EXPECT_THAT(error_of({"layout.tp=8", "layout.dp=3", "layout.etp=2", "layout.ep=16", "batch.global_batch=96"}),
              HasSubstr("times layout.etp (2) must divide layout.dp * cp * tp (24)"));
}

TEST(RunSpec, APublishedFigureThatIsNotRight) {
  const auto error = [&](const std::string& lines) { return error_of({}, published_run(lines)); };
  EXPECT_THAT(error("unit = \"tflops\"\nsource = \"x\"\ndevices = 1\n"), HasSubstr("published.value"));
  EXPECT_THAT(error(std::string(kFigure) + "range = [24, 30]\n"), HasSubstr("with the value in between"));
  EXPECT_THAT(error(std::string(kFigure) + "sauce = 1\n"), HasSubstr("published.sauce"));
  EXPECT_THAT(error("value = 1\nunit = \"furlongs\"\nsource = \"x\"\ndevices = 1\n"),
              HasSubstr("must be one of tokens_per_s_per_device, tokens_per_s, tflops, mfu_percent, step_s"));
}

TEST(RunSpec, BadKeysAndTypes) {
  EXPECT_EQ(error_of({"layout.schedul=gpipe"}),
            "--set: layout.schedul = \"gpipe\": unknown key; did you mean layout.schedule?");
  EXPECT_EQ(error_of({"layout.queues=3"}), "--set: layout.queues = 3: unknown key");
  EXPECT_EQ(error_of({}, std::string(kRun) + "[training]\nsteps = 3\n"),
            "configs/r.toml: training = { ... }: unknown key; did you mean train?");
  EXPECT_EQ(error_of({}, std::string("pp = 2\n") + kRun),
            "configs/r.toml: pp = 2: unknown key; did you mean layout.pp?");
  EXPECT_EQ(error_of({"layout.pp=two"}), "--set: layout.pp = \"two\": expected an integer, found a string");
  EXPECT_EQ(error_of({"train.steps=0"}), "--set: train.steps = 0: must be at least 1");
  EXPECT_EQ(error_of({"train.optimizer.beta2=1"}), "--set: train.optimizer.beta2 = 1: must be below 1");
  EXPECT_EQ(error_of({"layout.schedule=zigzag"}),
            "--set: layout.schedule = \"zigzag\": must be one of gpipe, 1f1b, interleaved_1f1b, merged_1f1b, zero_bubble_h1, "
            "zero_bubble_v, dualpipe_v");
  EXPECT_EQ(error_of({"layout.all_to_all=x"}), "--set: layout.all_to_all = \"x\": must be one of auto, flat, pairwise, scattered, bruck, node_aware, halo, halo3, allgather_a2a, dedup");
  EXPECT_THAT(error_of({"device.dtype=fp16"}), HasSubstr("must be one of float32, float64, bfloat16, float16"));
  EXPECT_THAT(error_of({"train.schedule.kind=step"}), HasSubstr("must be one of cosine, linear, wsd, constant"));
  EXPECT_THAT(error_of({"device.device=tpu"}), HasSubstr("must be one of cpu, cuda"));
}

TEST(RunSpec, ValuesThatDoNotFit) {
  EXPECT_EQ(error_of({"layout.ep=3"}), "--set: layout.ep = 3: must divide model.moe.num_experts (16)");
  EXPECT_EQ(error_of({"layout.pp=5"}), "--set: layout.pp = 5: more stages than model.num_layers (4)");
  EXPECT_EQ(error_of({"batch.global_batch=25"}),
            "--set: batch.global_batch = 25: must be a multiple of batch.micro_batch (2)");
  EXPECT_EQ(
      error_of({"layout.dp=10"}),
      "configs/r.toml: batch.global_batch = 24: must be a multiple of batch.micro_batch (2) times layout.dp (10)");
  EXPECT_EQ(error_of({"layout.dp=3"}), "configs/r.toml: layout.ep = 2: must divide layout.dp (3)");
  EXPECT_EQ(error_of({"layout.stage_layers=[2,1]"}),
            "--set: layout.stage_layers = [ 2, 1 ]: must sum to model.num_layers (4)");
  EXPECT_EQ(error_of({"layout.stage_layers=[4]"}),
            "--set: layout.stage_layers = [ 4 ]: must have layout.pp (2) entries");
  EXPECT_EQ(error_of({"data.valid=\"\""}),
            "--set: data.valid = \"\": is missing: train.eval_sequences asks for evaluation");
  EXPECT_EQ(error_of({"train.eval_every=5", "train.eval_sequences=0"}),
            "--set: train.eval_every = 5: evaluates nothing, for train.eval_sequences is 0: give that a number or \"all\"");
  EXPECT_EQ(error_of({"model.moe.num_experts=0"}),
            "configs/r.toml: layout.ep = 2: must be 1: the model has no experts");
}

TEST(RunSpec, LayoutsForPlanning) {
  const std::vector<std::string> keys = {"layout.tp=4", "layout.cp=2", "layout.virtual_stages=2",
                                         "layout.stage_layers=[2,1,1,0]", "layout.sharding=\"parameters\"",
                                         "layout.recompute=[\"norm\",\"activation\"]", "layout.swap=[\"optimizer\"]",
                                         "layout.overlap.experts=true"};
  const RunSpec run = parse_run(kRun, "r.toml", keys);
  EXPECT_EQ(run.layout.tp, 4);
  EXPECT_EQ(run.layout.sharding, Sharding::parameters);
  EXPECT_TRUE(run.layout.recompute.has(Recompute::norm));
  EXPECT_TRUE(run.layout.recompute.has(Recompute::activation));
  EXPECT_FALSE(run.layout.recompute.has(Recompute::layer));
  EXPECT_THAT(names_of(run.layout.swap), ElementsAre("optimizer"));
  EXPECT_TRUE(run.layout.overlap.experts);
  EXPECT_EQ(parse_run(to_toml(run), "r.toml", {}).layout, run.layout);
  EXPECT_THAT(error_of({"layout.recompute=[\"norms\"]"}), HasSubstr("\"norms\" is none of layer, attention"));
  EXPECT_THAT(error_of({"layout.sharding=\"zero3\""}), HasSubstr("none, optimizer, gradients, parameters"));
  EXPECT_THAT(error_of({"layout.virtual_stages=2", "layout.stage_layers=[2,1,1]"}), HasSubstr("(2 * 2) entries"));
  // Layers of stages instead of chunks.
  EXPECT_THAT(parse_run(kRun, "r.toml", {"layout.virtual_stages=2", "layout.stage_layers=[3,1]"}).layout.stage_layers,
              ElementsAre(3, 1));
}

TEST(RunSpec, OrdersOfRanks) {
  const RunSpec run = parse_run(kRun, "r.toml", {"layout.order=tp-cp-ep-pp-dp", "layout.expert_order=ep-etp-pp-edp"});
  EXPECT_EQ(to_text(run.layout.order), "tp-cp-ep-pp-dp");
  EXPECT_EQ(to_text(run.layout.expert_order), "ep-etp-pp-edp");
  EXPECT_EQ(parse_run(to_toml(run), "r.toml", {}).layout, run.layout);
  EXPECT_THAT(error_of({"layout.order=tp-pp"}), HasSubstr("layout.order = \"tp-pp\": \"tp-pp\" leaves out some of tp-cp-dp-pp-ep"));
  EXPECT_THAT(error_of({"layout.expert_order=etp-ep-dp-pp"}), HasSubstr("layout.expert_order = \"etp-ep-dp-pp\": dp is none of pp-ep-etp-edp"));
  // kRun has ep 2: two ranks of experts come before pp, and one of dense layers.
  EXPECT_THAT(error_of({"layout.order=tp-cp-ep-pp-dp", "layout.dp=2"}), HasSubstr("layout.order = \"tp-cp-ep-pp-dp\": with tp-cp-ep-pp-dp 1 ranks of dense layers and 2 of experts"));
}

TEST(RunSpec, WhatTheRuntimeCannotRunIsRefused) {
  for (const char* key : {"layout.tp=2", "layout.order=tp-cp-ep-pp-dp", "layout.expert_order=ep-etp-edp-pp", "layout.cp=2", "layout.etp=2", "layout.virtual_stages=2",
                          "layout.schedule=interleaved_1f1b", "layout.schedule=merged_1f1b",
                          "layout.schedule=zero_bubble_h1", "layout.schedule=zero_bubble_v", "layout.schedule=dualpipe_v",
                          "layout.sharding=\"optimizer\"", "layout.recompute=[\"layer\"]",
                          "layout.swap=[\"activations\"]", "layout.matrix_owners=true", "layout.overlap.experts=true"}) {
    const RunSpec run = parse_run(kRun, "r.toml", {key});
    try {
      resolve_mesh(run, 8);
      ADD_FAILURE() << key;
    } catch (const ConfigError& e) {
      const std::string name = std::string(key).substr(0, std::string(key).find_first_of("=", 8));
      EXPECT_THAT(e.what(), HasSubstr(name.substr(0, name.find('.', 7)))) << key;
      EXPECT_THAT(e.what(), HasSubstr("in a training run"));
    }
  }
}

TEST(RunSpec, ModelFromAFile) {
  const fs::path folder = fs::temp_directory_path() / ("trireme_run_spec_test_" + std::to_string(::getpid()));
  fs::create_directories(folder / "models");
  std::ofstream(folder / "models/m.toml")
      << "[model]\nvocab_size = 10\nhidden = 8\nnum_layers = 2\ndense_ffn = 4\nattention = {num_heads = 2}\n";
  const std::string file = (folder / "r.toml").string();
  std::ofstream(file) << "[model]\nfile = \"models/m.toml\"\n";
  EXPECT_EQ(load_run(file).model.hidden, 8);
  EXPECT_EQ(load_run(file, {"model.hidden=16"}).model.attention.head_dim, 8);
  EXPECT_EQ(load_run(file).folder, folder / "runs/run");
  const auto error = [&](const std::string& text, const std::vector<std::string>& overrides) -> std::string {
    std::ofstream(file) << text;
    try {
      load_run(file, overrides);
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(error("[model]\nfile = \"models/m.toml\"\n", {"model.hiden=3"}),
            "--set: model.hiden = 3: unknown key; did you mean model.hidden?");
  EXPECT_THAT(error("[model]\nfile = \"models/none.toml\"\n", {}), HasSubstr("models/none.toml: no such file"));
  EXPECT_THAT(error("[model]\nfile = \"models/m.toml\"\nhidden = 9\n", {}),
              HasSubstr("give either a file or the model's own keys (found model.hidden)"));
  EXPECT_THAT(error("[model]\nname = \"x\"\n", {}), HasSubstr("model.vocab_size: is missing: an integer is needed"));
  fs::remove_all(folder);
  EXPECT_THROW(load_run(file), ConfigError);
}

TEST(ResolveMesh, DataParallelRanksFollow) {
  const RunSpec run = parse_run(kRun, "r.toml");
  EXPECT_EQ(resolve_mesh(run, 4), (Mesh{.pp = 2, .dp = 2, .ep = 2}));
  EXPECT_EQ(resolve_mesh(run, 8), (Mesh{.pp = 2, .dp = 4, .ep = 2}));
  EXPECT_EQ(resolve_mesh(parse_run(kRun, "r.toml", {"layout.pp=1", "layout.ep=1"}), 3),
            (Mesh{.pp = 1, .dp = 3, .ep = 1}));
}

TEST(ResolveMesh, WhatDoesNotFitIsNamed) {
  const auto error = [](int ranks, const std::vector<std::string>& overrides) -> std::string {
    try {
      resolve_mesh(parse_run(kRun, "r.toml", overrides), ranks);
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(error(3, {}), "r.toml: layout.pp = 2: must divide the number of ranks (3)");
  EXPECT_EQ(error(8, {"layout.dp=2"}),
            "r.toml: layout.dp = 2: must be 4 for 8 ranks and layout.pp = 2 (0 lets it follow)");
  EXPECT_EQ(error(6, {}), "r.toml: layout.ep = 2: must divide the data-parallel ranks (6 ranks / layout.pp 2 = 3)");
  EXPECT_EQ(
      error(20, {}),
      "r.toml: batch.global_batch = 24: must be a multiple of batch.micro_batch (2) times the data-parallel ranks "
      "(10)");
  EXPECT_EQ(error(2'000'000'000, {}),
            "r.toml: ranks = 2000000000: at most 16384 are planned action by action (`trireme plan --model` answers for "
            "more)");
  EXPECT_THAT(error(4, {"batch.global_batch=1073741824"}),
              HasSubstr("batch.global_batch = 1073741824: is 268435456 micro-batches"));
}

TEST(RunSpec, ShippedRunsAreValidForTheirRanks) {
  for (const char* name : {"quickstart", "tiny"}) {
    const RunSpec run = load_run(fs::path(TRIREME_SOURCE_DIR) / "configs/runs" / (std::string(name) + ".toml"));
    EXPECT_EQ(resolve_mesh(run, 4), (Mesh{.pp = 2, .dp = 2, .ep = 2})) << name;
  }
}

}  // namespace
}  // namespace trireme::plan
