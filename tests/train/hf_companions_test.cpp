// What an export holds beside the weights. Whether transformers reads it: tools/check_hf_export.py.
#include "train/hf/hf_companions.h"

#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "model/hf_config.h"
#include "train/data/dataset_meta.h"
#include "train/data/tokenizer.h"
#include "train/hf/tokenizer_json.h"
#include "train/scratch_folder.h"

namespace trireme::train {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using testing::HasSubstr;
namespace fs = std::filesystem;

class Companions : public testing::Test {
 protected:
  ScratchFolder scratch_;
  fs::path out_ = scratch_.path() / "hf", origin_ = scratch_.path() / "origin";

  static model::ModelSpec mixtral() {
    model::ModelSpec spec{.name = "mixtral", .family = model::Family::mixtral, .vocab_size = 300, .hidden = 8, .num_layers = 2, .norm_eps = 1e-5};
    spec.attention = {.num_heads = 2, .num_kv_heads = 1, .head_dim = 4, .rope_theta = 1e6};
    spec.moe = {.num_experts = 4, .expert_ffn = 6};
    return spec;
  }
  plan::RunSpec run(const std::string& tokenizer, const std::string& file = "") {
    plan::RunSpec run;
    run.model = mixtral();
    run.batch.sequence_length = 64;
    const std::string prefix = (scratch_.path() / "data").string();
    std::ofstream(prefix + ".bin") << "1234";
    write_meta(prefix, {.tokenizer = tokenizer, .tokenizer_file = file, .vocab_size = 259, .eos = 256, .bin_bytes = 4});
    run.data.train = {{.prefix = prefix}};
    return run;
  }
  // An imported folder with keys that Trireme has no use for.
  json origin_config() const {
    json config = model::to_hf_config(mixtral(), model::Family::mixtral);
    config["max_position_embeddings"] = 4096;
    config["eos_token_id"] = {2, 7};
    config["bos_token_id"] = 1;
    config["output_router_logits"] = true;
    config["custom_key"] = {{"nested", 1}};
    return config;
  }
  void make_origin() {
    fs::create_directories(origin_);
    std::ofstream(origin_ / "config.json") << origin_config().dump();
    std::ofstream(origin_ / "tokenizer.json") << R"({"added_tokens": [{"id": 2, "content": "</s>"}], "model": {"vocab": {"a": 0}}})";
    std::ofstream(origin_ / "tokenizer_config.json") << R"({"tokenizer_class": "LlamaTokenizerFast", "eos_token": "</s>"})";
    std::ofstream(origin_ / "chat_template.jinja") << "{{ messages }}";
    std::ofstream(origin_ / "generation_config.json") << R"({"temperature": 0.6})";
  }
  static std::string read_text(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static ordered_json read(const fs::path& path) {
    std::ifstream in(path);
    return ordered_json::parse(in);
  }
};

TEST_F(Companions, OfARunOnBytes) {
  EXPECT_EQ(write_companions(out_, run("byte")), "");
  const auto config = read(out_ / "config.json");
  EXPECT_EQ(config.at("max_position_embeddings"), 64);  // the run's sequences
  EXPECT_EQ(config.at("eos_token_id"), 256);
  EXPECT_EQ(config.at("bos_token_id"), 257);
  EXPECT_EQ(config.at("pad_token_id"), 258);
  EXPECT_EQ(read(out_ / "generation_config.json").at("eos_token_id"), 256);
  EXPECT_EQ(read(out_ / "tokenizer_config.json").at("model_max_length"), 64);
  const auto exported = merged_config(model::to_hf_config(mixtral(), model::Family::mixtral), out_);
  EXPECT_EQ(exported.at("max_position_embeddings"), 64);
  EXPECT_EQ(exported.at("eos_token_id"), 256);
  EXPECT_EQ(exported.at("hidden_size"), 8);
}

// GPT-2's table (openai/gpt-2, encoder.py): a space is U+0120, a line feed U+010A, the byte 0xff itself, U+00FF.
TEST_F(Companions, TheByteTokenizersVocabularyIsTheBytes) {
  const auto json = byte_tokenizer_json();
  const auto& vocabulary = json["model"]["vocab"];
  ASSERT_EQ(vocabulary.size(), 256u);
  EXPECT_EQ(vocabulary.at("A"), 65);
  EXPECT_EQ(vocabulary.at("\u0120"), 32);
  EXPECT_EQ(vocabulary.at("\u010a"), 10);
  EXPECT_EQ(vocabulary.at("\u00ff"), 255);
  std::set<int> ids;
  for (const auto& [text, id] : vocabulary.items()) ids.insert(id.get<int>());
  EXPECT_EQ(ids.size(), 256u);
  const SpecialTokens special = byte_tokenizer()->special();
  EXPECT_EQ(json["added_tokens"][0]["id"], special.eos);
  EXPECT_EQ(json["added_tokens"][1]["id"], special.bos);
  EXPECT_EQ(json["added_tokens"][2]["id"], special.pad);
}

// Everything that Trireme has no use for survives, and so do the tokenizer's and the chat's files.
TEST_F(Companions, OfAnImportedModelComesBackAsItWas) {
  make_origin();
  plan::RunSpec imported = run("some other tool's");
  imported.model_origin = origin_;
  EXPECT_EQ(write_companions(out_, imported), "");
  for (const char* file : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"})
    EXPECT_EQ(read_text(out_ / file), read_text(origin_ / file)) << file;
  const auto exported = merged_config(model::to_hf_config(mixtral(), model::Family::mixtral), out_);
  EXPECT_EQ(json(exported), origin_config());
}

TEST_F(Companions, OursWinsWhereTheModelDiffers) {
  make_origin();
  plan::RunSpec imported = run("some other tool's");
  imported.model_origin = origin_ / "config.json";
  imported.batch.sequence_length = 8192;  // trained on longer sequences than the import
  write_companions(out_, imported);
  model::ModelSpec changed = mixtral();
  changed.num_layers = 1;
  const auto exported = merged_config(model::to_hf_config(changed, model::Family::mixtral), out_);
  EXPECT_EQ(exported.at("num_hidden_layers"), 1);
  EXPECT_EQ(exported.at("max_position_embeddings"), 8192);
  EXPECT_EQ(exported.at("eos_token_id"), (ordered_json{2, 7}));
  EXPECT_EQ(exported.at("custom_key").at("nested"), 1);
}

// An import that was trained on bytes: the imported ids and settings belong to a tokenizer that is no longer its own.
TEST_F(Companions, AnotherTokenizerReplacesTheImportedOne) {
  make_origin();
  plan::RunSpec imported = run("byte");
  imported.model_origin = origin_;
  write_companions(out_, imported);
  EXPECT_EQ(read(out_ / "config.json").at("eos_token_id"), 256);
  EXPECT_FALSE(fs::exists(out_ / "chat_template.jinja"));
  EXPECT_EQ(read(out_ / "tokenizer.json").at("model").at("vocab").size(), 256u);
  EXPECT_FALSE(read(out_ / "generation_config.json").contains("temperature"));
}

TEST_F(Companions, AMissingTokenizerFileIsSaidAndStopsNothing) {
  const std::string note = write_companions(out_, run("sentencepiece", "data.tokenizer.model"));
  EXPECT_THAT(note, HasSubstr("tokenizer_file"));
  EXPECT_TRUE(fs::exists(out_ / "config.json"));
  EXPECT_FALSE(fs::exists(out_ / "tokenizer.json"));
}

TEST_F(Companions, NamedTokenizersAreFoundOrRefused) {
  EXPECT_EQ(tokenizer_named("byte").kind, HfTokenizer::Kind::byte);
  make_origin();
  EXPECT_EQ(tokenizer_named(origin_.string()).kind, HfTokenizer::Kind::huggingface);
  EXPECT_EQ(tokenizer_named((origin_ / "tokenizer.json").string()).kind, HfTokenizer::Kind::huggingface);
  EXPECT_THROW(tokenizer_named((scratch_.path() / "none.model").string()), ConfigError);
}

// A SentencePiece model by hand: pieces "<unk>" (kind 2), "a" (score 0), "b", "ab" (score -1 behind 0), BPE (2), no prefix,
// spaces stay. Keys: 0a field 1 delimited, 15 field 2 fixed32, 18 field 3 varint, 12 field 2 delimited, 1a field 3 delimited.
TEST_F(Companions, ASentencePieceModelIsReadByItsFormat) {
  const auto piece = [](const std::string& text, const std::string& score, char kind) {
    std::string body = "\x0a" + std::string(1, static_cast<char>(text.size())) + text + "\x15" + score + "\x18" + std::string(1, kind);
    return "\x0a" + std::string(1, static_cast<char>(body.size())) + body;
  };
  const std::string zero(4, '\0'), minus_one("\x00\x00\x80\xbf", 4), minus_two("\x00\x00\x00\xc0", 4);
  const std::string bytes = piece("<unk>", zero, 2) + piece("a", minus_two, 1) + piece("b", minus_two, 1) + piece("ab", minus_one, 1) +
                            std::string("\x12\x02\x18\x02", 4) + std::string("\x1a\x04\x18\x00\x20\x00", 6);
  const fs::path file = scratch_.path() / "hand.model";
  std::ofstream(file, std::ios::binary) << bytes;
  const SentencePieceFile model = read_sentencepiece_file(file);
  ASSERT_EQ(model.pieces.size(), 4u);
  EXPECT_EQ(model.pieces[3].text, "ab");
  EXPECT_EQ(model.pieces[3].score, -1);
  EXPECT_EQ(model.pieces[0].kind, SentencePieceFile::PieceKind::unknown);
  EXPECT_EQ(model.model, SentencePieceFile::ModelKind::bpe);
  EXPECT_FALSE(model.add_dummy_prefix);
  EXPECT_FALSE(model.remove_extra_whitespaces);
  EXPECT_TRUE(model.escape_whitespaces);
  const auto json = sentencepiece_tokenizer_json(model);
  EXPECT_EQ(json.why_not, "");
  EXPECT_EQ(json.json["model"]["merges"], (ordered_json::array({ordered_json::array({"a", "b"})})));
  EXPECT_EQ(json.json["model"]["vocab"]["ab"], 3);

  std::ofstream(file, std::ios::binary) << bytes.substr(0, 20);
  EXPECT_THROW(read_sentencepiece_file(file), ConfigError);
}

}  // namespace
}  // namespace trireme::train
