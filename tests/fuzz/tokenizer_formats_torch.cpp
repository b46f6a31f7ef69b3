// What is read to write a folder that transformers can load: tokenizers, and an imported folder's files.
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "fuzz/format.h"
#include "model/hf_config.h"
#include "train/data/dataset_meta.h"
#include "train/data/loss_weights.h"
#include "train/data/token_file.h"
#include "train/hf/hf_companions.h"
#include "train/hf/hf_tokenizer.h"
#include "train/hf/sentencepiece_file.h"

namespace trireme::fuzz {
namespace {

namespace fs = std::filesystem;
using namespace train;

constexpr const char* tokenizer_json =
    "{\"added_tokens\": [{\"id\": 2, \"content\": \"</s>\"}, {\"id\": 1, \"content\": \"<s>\"}],\n"
    " \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"<s>\": 1, \"</s>\": 2, \"<pad>\": 3}}}\n";
constexpr const char* tokenizer_config =
    "{\"tokenizer_class\": \"LlamaTokenizerFast\", \"eos_token\": \"</s>\", \"bos_token\": {\"content\": \"<s>\"},\n"
    " \"pad_token\": \"<pad>\", \"add_bos_token\": true}\n";

fs::path new_folder(const char* name) {
  const fs::path folder = scratch_folder() / name;
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return folder;
}

model::ModelSpec mixtral() {
  model::ModelSpec spec{.name = "mixtral", .family = model::Family::mixtral, .vocab_size = 300, .hidden = 8, .num_layers = 2, .norm_eps = 1e-5};
  spec.attention = {.num_heads = 2, .num_kv_heads = 1, .head_dim = 4, .rope_theta = 1e6};
  spec.moe = {.num_experts = 4, .expert_ffn = 6};
  return spec;
}

// An imported folder, whose files are what is mutated.
fs::path origin() {
  const fs::path folder = scratch_folder() / "origin";
  if (fs::exists(folder)) return folder;
  fs::create_directories(folder);
  nlohmann::json config = model::to_hf_config(mixtral(), model::Family::mixtral);
  config["max_position_embeddings"] = 4096, config["eos_token_id"] = {2, 7}, config["bos_token_id"] = 1;
  write_file(folder / "config.json", config.dump(1));
  write_file(folder / "tokenizer.json", tokenizer_json);
  write_file(folder / "tokenizer_config.json", tokenizer_config);
  return folder;
}

void export_origin() {
  plan::RunSpec run;
  run.model = mixtral();
  run.batch.sequence_length = 64;
  run.model_origin = origin();
  run.data.train = {{.prefix = "random"}};
  const fs::path out = new_folder("companions");
  write_companions(out, run);
  merged_config(model::to_hf_config(run.model, model::Family::mixtral), out);
  replace_tokenizer(out, tokenizer_named(origin().string()));
}

void export_sentencepiece(const std::string& text) {
  const fs::path file = scratch_folder() / "exported.model";
  write_file(file, text);
  std::string note;
  write_tokenizer({.kind = HfTokenizer::Kind::sentencepiece, .file = file}, new_folder("of_pieces"), 64, note);
}

// A data set with weights and its own tokenizer.
std::string data_set() {
  const std::string prefix = (scratch_folder() / "weighted").string();
  if (fs::exists(prefix + ".bin")) return prefix;
  TokenWriter writer(prefix, TokenType::uint16);
  const std::vector<std::int32_t> document = {1, 2, 3};
  writer.add_document(document);
  writer.finish();
  const float weights[] = {0, 0.5f, 1};
  write_file(prefix + ".weights", std::string(reinterpret_cast<const char*>(weights), sizeof weights));
  write_meta(prefix, {.tokenizer = "byte", .vocab_size = 259, .eos = 256, .num_documents = 1, .num_tokens = 3, .max_token = 3, .bin_bytes = 6});
  return prefix;
}

void read_weights() {
  const TokenReader tokens(data_set());
  const auto weights = LossWeights::open(tokens);
  std::vector<float> all(3);
  weights->read(0, all);
  tokenizer_of_data(data_set());
}

}  // namespace

std::vector<Format> tokenizer_formats() {
  const std::vector<std::string> words = {"null", "[]", "\"\\ud800\"", "\"content\": 1", "\"id\": \"x\"", "\"added_tokens\": {}", "\"vocab\": []"};
  std::vector<Format> out = {
      with_file("exported_config", origin() / "config.json", {"null", "\"eos_token_id\": {}", "\"text_config\": {}"}, export_origin, /*refuses=*/false),
      with_file("exported_tokenizer", origin() / "tokenizer.json", words, export_origin),
      with_file("exported_tokenizer_config", origin() / "tokenizer_config.json", words, export_origin),
      with_file("loss_weights", data_set() + ".weights", {std::string("\0\0\xc0\x7f", 4), std::string("\0\0\x80\xbf", 4)}, read_weights),
      with_file("weighted_meta", data_set() + ".meta.json", {"\"weights\": true", "\"tokenizer\": \"huggingface\"", "\"eos\": 1e300"}, read_weights)};
  std::vector<std::string> models = kept_seeds("sentencepiece");
  out.push_back(format("exported_sentencepiece", std::move(models), {}, export_sentencepiece));
  return out;
}

}  // namespace trireme::fuzz
