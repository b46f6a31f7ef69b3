#include "train/checkpoint/hf_export.h"

#include <cstdlib>
#include <fstream>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "model/hf_config.h"
#include "nn/model.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/checkpoint_state.h"
#include "train/checkpoint/checkpoint_writer.h"
#include "train/checkpoint/hf_folder.h"
#include "train/checkpoint/hf_names.h"
#include "train/checkpoint_fixture.h"
#include "train/scratch_folder.h"

namespace trireme::train {
namespace {

using model::Family;
using testing::HasSubstr;
namespace fs = std::filesystem;

model::ModelSpec mixtral() {
  model::ModelSpec spec{
      .name = "mixtral", .family = Family::mixtral, .vocab_size = 29, .hidden = 8, .num_layers = 2, .norm_eps = 1e-5};
  spec.attention = {.num_heads = 2, .num_kv_heads = 1, .head_dim = 4, .rope_theta = 1e6};
  spec.moe = {.num_experts = 4, .expert_ffn = 6};
  spec.moe.router.top_k = 2;
  return spec;
}

model::ModelSpec qwen3_moe() {
  model::ModelSpec spec = mixtral();
  spec.name = "qwen3_moe", spec.family = Family::qwen3_moe;
  spec.num_dense_layers = 1, spec.dense_ffn = 12, spec.tied_embeddings = true;
  spec.attention.qk_norm = true;
  return spec;
}

class HfExport : public testing::Test {
 protected:
  ScratchFolder scratch_;
  fs::path out_ = scratch_.path() / "hf";

  // A checkpoint of one rank with drawn weights.
  fs::path checkpoint(const model::ModelSpec& spec, at::ScalarType dtype = at::kFloat) {
    RankPart rank = make_rank(spec, {}, 0, dtype);
    rank.model->initialise(3);
    rank.optimizer->adopt_values();
    CheckpointWriter writer({.folder = scratch_.path() / "checkpoints", .asynchronous = false, .model = spec},
                            std::make_shared<InProcessCommitBarrier>());
    writer.save(1, rank.owned(), {});
    return scratch_.path() / "checkpoints" / checkpoint_name(1);
  }

  static void expect_same_weights(const WeightSource& a, const WeightSource& b) {
    for (const model::ParameterSpec& p : model::parameters(a.model()))
      EXPECT_TRUE(at::equal(a.read(p), b.read(p))) << p.name;
  }
};

TEST_F(HfExport, GoesThereAndBack) {
  for (const model::ModelSpec& spec : {mixtral(), qwen3_moe()}) {
    const CheckpointReader reader(checkpoint(spec));
    export_hf(reader, {.folder = out_});
    EXPECT_TRUE(fs::exists(out_ / "model.safetensors"));
    const auto back = open_weights(out_);
    check_same_model(back->model(), spec, "exported");
    EXPECT_EQ(back->model().family, spec.family);
    expect_same_weights(reader, *back);
  }
}

// 29 x 8 float32 embeddings are 928 bytes; shards of at most 1000 bytes hold them alone or with small ones.
TEST_F(HfExport, CutsShardsAtTheLimitAndIndexesThem) {
  const CheckpointReader reader(checkpoint(mixtral()));
  export_hf(reader, {.folder = out_});
  export_hf(reader, {.folder = out_, .max_shard_bytes = 1000});
  EXPECT_FALSE(fs::exists(out_ / "model.safetensors")) << "what an earlier export left is removed";
  std::ifstream in(out_ / "model.safetensors.index.json");
  const auto index = nlohmann::json::parse(in);
  std::uint64_t total = 0;
  int num_files = 0;
  for (const auto& entry : fs::directory_iterator(out_)) {
    if (entry.path().extension() != ".safetensors") continue;
    std::uint64_t bytes = 0;
    const SafetensorsFile file(entry.path());
    for (const auto& [name, tensor] : file.entries()) {
      EXPECT_EQ(index["weight_map"].at(name), entry.path().filename().string());
      bytes += tensor.bytes();
    }
    EXPECT_LE(bytes, 1000u);
    total += bytes;
    ++num_files;
  }
  EXPECT_GT(num_files, 2);
  EXPECT_EQ(index["metadata"]["total_size"], total);
  expect_same_weights(reader, *open_weights(out_));
}

TEST_F(HfExport, RoundsToTheDtypeAskedFor) {
  const CheckpointReader reader(checkpoint(mixtral()));
  export_hf(reader, {.folder = out_, .dtype = at::kBFloat16});
  std::ifstream in(out_ / "config.json");
  EXPECT_EQ(nlohmann::json::parse(in).at("torch_dtype"), "bfloat16");
  const auto back = open_weights(out_);
  const auto first = model::parameters(mixtral()).front();
  EXPECT_TRUE(at::equal(back->read(first), reader.read(first).to(at::kBFloat16)));
}

TEST_F(HfExport, SaysWhatAFamilyCannotExpressBeforeItWrites) {
  const CheckpointReader reader(checkpoint(small_model()));  // has a shared expert
  try {
    export_hf(reader, {.folder = out_});
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.detail().key, "model.moe.shared_ffn");
  }
  EXPECT_FALSE(fs::exists(out_));
}

// The form that transformers 5 has in memory: one tensor a layer for gate and up (gate's rows first), one for down.
TEST_F(HfExport, ReadsFusedExperts) {
  for (const model::ModelSpec& spec : {mixtral(), qwen3_moe()}) {
    const CheckpointReader reader(checkpoint(spec));
    std::vector<NamedTensor> tensors;
    std::map<std::pair<int, std::string>, std::vector<at::Tensor>> experts;  // (layer, matrix) -> by expert
    for (const model::ParameterSpec& p : model::parameters(spec)) {
      const at::Tensor value = reader.read(p);
      if (p.expert >= 0) {
        for (const char* matrix : {"gate", "up", "down"}) {
          if (p.name.ends_with(std::string(".") + matrix + ".weight")) experts[{p.layer, matrix}].push_back(value);
        }
      } else if (p.name.ends_with(".router.weight")) {
        tensors.push_back({hf_fused_router(p.layer), value});
      } else {
        tensors.push_back({hf_name(p, spec.family), value});
      }
    }
    for (int layer = spec.num_dense_layers; layer < spec.num_layers; ++layer) {
      const std::string prefix = fmt::format("model.layers.{}.mlp.experts.", layer);
      tensors.push_back({prefix + "gate_up_proj",
                         at::cat({at::stack(experts[{layer, "gate"}]), at::stack(experts[{layer, "up"}])}, 1)});
      tensors.push_back({prefix + "down_proj", at::stack(experts[{layer, "down"}])});
    }
    fs::create_directories(out_);
    write_safetensors(out_ / "model.safetensors", tensors);
    std::ofstream(out_ / "config.json") << model::to_hf_config(spec, spec.family).dump();
    expect_same_weights(reader, HfFolder(out_));
  }
}

TEST_F(HfExport, StartsAModelOfAnyLayoutFromAnHfFolder) {
  const CheckpointReader reader(checkpoint(mixtral()));
  export_hf(reader, {.folder = out_});
  const plan::Mesh mesh{.pp = 2, .dp = 2, .ep = 2};
  for (RankPart& rank : make_ranks(mixtral(), mesh)) {
    start_from(HfFolder(out_), *rank.model, *rank.optimizer);
    for (const nn::Parameter* parameter : rank.model->parameters()) {
      for (const nn::Piece& piece : parameter->pieces) {
        EXPECT_TRUE(at::equal(parameter->piece_value(piece), reader.read(piece.spec))) << piece.spec.name;
      }
    }
  }
}

// A whole file, and beside it the index of another, sharded one, as a download that was begun twice leaves it.
TEST_F(HfExport, AStaleIndexBesideAWholeFileIsNoHindrance) {
  const CheckpointReader reader(checkpoint(mixtral()));
  export_hf(reader, {.folder = out_});
  EXPECT_EQ(HfFolder(out_).note(), "");
  std::ofstream(out_ / "model.safetensors.index.json")
      << R"({"weight_map": {"model.embed_tokens.weight": "model-00001-of-00002.safetensors"}})";
  const HfFolder whole(out_);
  expect_same_weights(reader, whole);
  EXPECT_THAT(whole.note(), HasSubstr("model.safetensors is read"));
}

// The other way round: the shards are complete, and a model.safetensors beside them holds only a part.
TEST_F(HfExport, CompleteShardsBesideAPartAreRead) {
  const CheckpointReader reader(checkpoint(mixtral()));
  export_hf(reader, {.folder = out_, .max_shard_bytes = 1000});
  const NamedTensor only{"model.norm.weight", at::ones({8})};
  write_safetensors(out_ / "model.safetensors", {&only, 1});
  const HfFolder shards(out_);
  expect_same_weights(reader, shards);
  EXPECT_THAT(shards.note(), HasSubstr("which is not complete"));
}

TEST_F(HfExport, AMissingShardIsNamedByAnIndexsHeadersAlone) {
  const CheckpointReader reader(checkpoint(mixtral()));
  export_hf(reader, {.folder = out_, .max_shard_bytes = 1000});
  check_weights(*open_weights(out_), mixtral());
  fs::path shard;
  for (const auto& entry : fs::directory_iterator(out_))
    if (entry.path().filename().string().starts_with("model-00002-of-")) shard = entry.path();
  fs::remove(shard);
  try {
    check_weights(*open_weights(out_), mixtral());
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.detail().file, shard.string());
    EXPECT_THAT(error.what(), HasSubstr("a shard is missing"));
  }
}

TEST_F(HfExport, AnIndexThatLeadsOutOfTheFolderIsRefused) {
  const CheckpointReader reader(checkpoint(mixtral()));
  export_hf(reader, {.folder = out_});
  fs::rename(out_ / "model.safetensors", scratch_.path() / "outside.safetensors");
  for (const std::string outside : {std::string("../outside.safetensors"), (scratch_.path() / "outside.safetensors").string()}) {
    std::ofstream(out_ / "model.safetensors.index.json")
        << nlohmann::json{{"weight_map", {{"model.embed_tokens.weight", outside}}}}.dump();
    try {
      HfFolder folder(out_);
      FAIL() << "no error";
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.detail().value, outside);
      EXPECT_THAT(error.what(), HasSubstr("must name a file beside the index"));
    }
  }
}

// The language model of a multimodal folder: its config in text_config, its tensors under a prefix.
TEST_F(HfExport, ReadsTheLanguageModelOfAMultimodalFolder) {
  const CheckpointReader reader(checkpoint(mixtral()));
  std::vector<NamedTensor> tensors{{"vision_tower.patch.weight", at::ones({3})}};
  for (const model::ParameterSpec& p : model::parameters(mixtral()))
    tensors.push_back({"language_model." + hf_name(p, Family::mixtral), reader.read(p)});
  fs::create_directories(out_);
  write_safetensors(out_ / "model.safetensors", tensors);
  std::ofstream(out_ / "config.json") << nlohmann::json{
      {"model_type", "some_vlm"}, {"text_config", model::to_hf_config(mixtral(), Family::mixtral)}}.dump();
  const HfFolder folder(out_);
  check_same_model(folder.model(), mixtral(), "text_config");
  expect_same_weights(reader, folder);
}

// A folder is ours where an export's list says so; other files in it stay.
TEST_F(HfExport, ReplacesItsOwnFilesAndNoOthers) {
  const CheckpointReader reader(checkpoint(mixtral()));
  const auto refused = [&](const HfExportOptions& options) -> std::string {
    try {
      export_hf(reader, options);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  fs::create_directories(out_);
  std::ofstream(out_ / "model-of-somebody.safetensors") << "x";
  EXPECT_THAT(refused({.folder = out_}), HasSubstr("model-of-somebody.safetensors"));
  EXPECT_EQ(std::distance(fs::directory_iterator(out_), {}), 1) << "nothing was written";
  export_hf(reader, {.folder = out_, .overwrite = true});
  EXPECT_TRUE(fs::exists(out_ / "model-of-somebody.safetensors"));
  export_hf(reader, {.folder = out_, .max_shard_bytes = 1000});  // the list is there by now
  EXPECT_FALSE(fs::exists(out_ / "model.safetensors"));
  EXPECT_TRUE(fs::exists(out_ / "model-of-somebody.safetensors"));
  export_hf(reader, {.folder = out_});
  int num_files = 0;
  for (const auto& entry : fs::directory_iterator(out_)) num_files += entry.path().extension() == ".safetensors";
  EXPECT_EQ(num_files, 2) << "the shards are gone";
  // Somebody's model.safetensors would be read instead of our shards.
  const fs::path other = scratch_.path() / "other";
  fs::create_directories(other);
  std::ofstream(other / "model.safetensors") << "x";
  EXPECT_THAT(refused({.folder = other, .overwrite = true, .max_shard_bytes = 1000}), HasSubstr("transformers may read instead"));
  EXPECT_FALSE(fs::exists(other / "config.json"));
}

TEST_F(HfExport, FindsTheWeightsThatAPathMeans) {
  const fs::path run = scratch_.path() / "run", folder = run / "checkpoints";
  RankPart rank = make_rank(mixtral(), {}, 0);
  CheckpointWriter writer({.folder = folder, .keep = {0}, .asynchronous = false, .model = mixtral()},
                          std::make_shared<InProcessCommitBarrier>());
  for (const auto& [step, loss] : std::vector<std::pair<std::int64_t, double>>{{1, 3.0}, {2, 2.0}, {3, 2.5}})
    writer.save(step, rank.owned(), {{eval_loss_key, loss}});
  EXPECT_EQ(find_weights(run).folder, folder / checkpoint_name(3));
  EXPECT_EQ(find_weights(folder).folder, folder / checkpoint_name(3));
  EXPECT_EQ(find_weights(folder / checkpoint_name(1)).folder, folder / checkpoint_name(1));
  EXPECT_EQ(find_weights(run, {.step = 2}).folder, folder / checkpoint_name(2));
  EXPECT_EQ(find_weights(run, {.best = true}).folder, folder / checkpoint_name(2));
  const auto says = [&](const fs::path& path, const CheckpointChoice& choice) -> std::string {
    try {
      find_weights(path, choice);
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.detail().key, choice.key);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(says(run, {.step = 4, .key = "SOURCE"}), HasSubstr("has no checkpoint of step 4; it has 1, 2, 3"));
  EXPECT_THAT(says(folder / checkpoint_name(1), {.step = 1}), HasSubstr("is one checkpoint"));
  EXPECT_THAT(says(scratch_.path() / "none", {}), HasSubstr("no such folder"));
  fs::create_directories(scratch_.path() / "empty");
  EXPECT_THAT(says(scratch_.path() / "empty", {.key = "SOURCE"}), HasSubstr("holds no weights"));
}

TEST_F(HfExport, NamesWhatAFolderLacks) {
  const CheckpointReader reader(checkpoint(mixtral()));
  export_hf(reader, {.folder = out_});
  fs::remove(out_ / "model.safetensors");
  try {
    HfFolder folder(out_);
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.detail().file, out_.string());
    EXPECT_THAT(error.what(), HasSubstr("holds neither model.safetensors nor model.safetensors.index.json"));
  }
  const NamedTensor only{"model.norm.weight", at::ones({7})};
  write_safetensors(out_ / "model.safetensors", {&only, 1});
  HfFolder folder(out_);
  for (const model::ParameterSpec& p : model::parameters(mixtral())) {
    try {
      folder.read(p);
      ADD_FAILURE() << "no error for " << p.name;
    } catch (const ConfigError& error) {
      const bool norm = p.name == "final_norm.weight";
      EXPECT_THAT(error.what(), HasSubstr(norm ? "model.norm.weight: is F32 (7), and the model needs (8)"
                                               : "no such tensor in the folder (for " + p.name + ")"));
    }
  }
}

// With a Python that has transformers (TRIREME_PYTHON), both families' logits are those of transformers: an independent
// reader of the exported files. In float64, where transformers keeps its norms, rotary positions and router softmax in
// float32, hence the tolerance.
TEST_F(HfExport, TransformersReadsItAndAgrees) {
  const char* python = std::getenv("TRIREME_PYTHON");
  const std::string probe = fmt::format("{} -c 'import transformers' > /dev/null 2>&1", python ? python : "python3");
  if (std::system(probe.c_str()) != 0) GTEST_SKIP() << "no Python with transformers (set TRIREME_PYTHON)";
  for (const model::ModelSpec& spec : {mixtral(), qwen3_moe()}) {
    export_hf(CheckpointReader(checkpoint(spec, at::kDouble)), {.folder = out_, .max_shard_bytes = 4000});
    const fs::path result = scratch_.path() / "logits.json", saved = scratch_.path() / "saved";
    const std::string command = fmt::format(
        "{} {}/tools/check_hf_export.py {} --tokens 1 5 7 2 9 11 --dtype float64 --save {} > {} 2> {}/python.log",
        python ? python : "python3", TRIREME_SOURCE_DIR, out_.string(), saved.string(), result.string(),
        scratch_.path().string());
    const int status = std::system(command.c_str());
    std::ifstream log(scratch_.path() / "python.log");
    ASSERT_EQ(status, 0) << command << "\n" << std::string(std::istreambuf_iterator<char>(log), {});
    std::ifstream in(result);
    const auto theirs = nlohmann::json::parse(in).at("logits").get<std::vector<std::vector<double>>>();

    RankPart rank = make_rank(spec, {}, 0, at::kDouble);
    start_from(HfFolder(out_), *rank.model, *rank.optimizer);
    const at::Tensor tokens = at::tensor(std::vector<std::int64_t>{1, 5, 7, 2, 9, 11}).view({1, 6});
    const nn::Batch batch{.tokens_BS = tokens,
                          .targets_BS = at::zeros_like(tokens),
                          .weights_BS = at::ones({1, 6}),
                          .positions_BS = at::arange(6, at::kLong).view({1, 6}),
                          .documents_BS = at::zeros_like(tokens)};
    at::NoGradGuard no_grad;
    const at::Tensor ours = nn::logits(*rank.model, batch);
    ASSERT_EQ(ours.size(0), static_cast<std::int64_t>(theirs.size()));
    double difference = 0, norm = 0;
    for (std::size_t t = 0; t < theirs.size(); ++t) {
      for (std::size_t v = 0; v < theirs[t].size(); ++v) {
        const double mine = ours[static_cast<std::int64_t>(t)][static_cast<std::int64_t>(v)].item<double>();
        difference += (mine - theirs[t][v]) * (mine - theirs[t][v]);
        norm += theirs[t][v] * theirs[t][v];
      }
    }
    EXPECT_GT(norm, 0);
    EXPECT_LT(std::sqrt(difference / norm), 1e-6) << spec.name;
    RecordProperty(spec.name + "_relative_difference", fmt::format("{:.1e}", std::sqrt(difference / norm)));
    // And what transformers has saved is read back.
    const HfFolder back(saved);
    check_same_model(back.model(), spec, "saved by transformers");
    expect_same_weights(HfFolder(out_), back);
  }
}

}  // namespace
}  // namespace trireme::train
