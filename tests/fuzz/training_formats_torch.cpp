// What the running half reads: token files, text, tokenizers, weights, checkpoints, metrics to go on with, and the launcher's
// environment.
#include <algorithm>
#include <sstream>

#include <ATen/ATen.h>

#include "base/errors.h"
#include "comm/launch_env.h"
#include "fuzz/format.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/checkpoint_reader.h"
#include "train/checkpoint/checkpoint_writer.h"
#include "train/checkpoint/hf_export.h"
#include "train/checkpoint/safetensors.h"
#include "train/checkpoint_fixture.h"
#include "train/data/dataset_meta.h"
#include "train/data/documents.h"
#include "train/data/token_file.h"
#include "train/data/tokenizer.h"
#include "train/metrics/metrics_log.h"

namespace trireme::fuzz {
namespace {

namespace fs = std::filesystem;
using namespace train;

void read_tokens() {
  const TokenReader reader((scratch_folder() / "tokens").string());
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(std::min<std::int64_t>(reader.num_tokens(), 1 << 16)));
  reader.read(reader.num_tokens() - static_cast<std::int64_t>(tokens.size()), tokens);
  for (std::int64_t d = 0; d < reader.num_documents(); ++d)
    TRIREME_CHECK(reader.document_length(d) >= 0 && reader.first_token(d) + reader.document_length(d) <= reader.num_tokens());
  reader.check_vocabulary(1000);
}

std::vector<Format> token_formats() {
  const std::string prefix = (scratch_folder() / "tokens").string();
  TokenWriter writer(prefix, TokenType::uint16);
  const std::vector<std::vector<std::int32_t>> documents = {{1, 2, 3}, {}, {7, 8, 999}};
  for (const auto& document : documents) writer.add_document(document);
  writer.finish();
  write_meta(prefix, {.tokenizer = "byte", .vocab_size = 1000, .eos = 1, .num_documents = 3, .num_tokens = 6, .max_token = 999, .bin_bytes = 12, .sources = {"a"}});
  return {with_file("token_idx", prefix + ".idx", {"MMIDIDX"}, read_tokens), with_file("token_bin", prefix + ".bin", {}, read_tokens),
          with_file("token_meta", prefix + ".meta.json", {"\"max_token\": -2", "\"bin_bytes\": 12"}, read_tokens)};
}

std::vector<Format> text_formats() {
  const auto rule = [](DocumentRule of) {
    return [of](const std::string& input) {
      const fs::path file = scratch_folder() / "text";
      write_file(file, input);
      const auto tokenizer = byte_tokenizer();
      for_each_document(file, {.rule = of, .separator = "^#"}, [&](std::string_view document) {
        std::vector<std::int32_t> tokens;
        tokenizer->encode(document, tokens);
        TRIREME_CHECK(tokenizer->decode(tokens) == document, "other text comes back");
      });
    };
  };
  const std::vector<std::string> text = {"one line\nand another\n\na second document\n# three\nof Größe\r\n", "x"};
  const std::vector<std::string> words = {"{\"text\": \"b\"}\n", "\\ud800", "NaN", "\"text\": 1", "\xff\xfe", "\x1f\x8b\x08"};
  const auto weighted = [](JsonFields fields) {
    return [fields](const std::string& input) {
      const fs::path file = scratch_folder() / "text.jsonl";
      write_file(file, input);
      for_each_document(file, {.rule = DocumentRule::jsonl, .json = fields}, [](const Document& document) {
        for (const WeightedSpan& span : document.weights)
          TRIREME_CHECK(span.bytes.begin <= span.bytes.end && span.bytes.end <= document.text.size() && span.weight >= 0);
      });
    };
  };
  return {format("jsonl_spans", {"{\"text\": \"Gr\u00f6\u00dfe\", \"w\": [[0, 2, 0.5], [3, 5, 1]]}\n{\"text\": \"a\", \"w\": 2}\n"},
                 {"[0, 1, 1]", "[-1, 2, 1]", "[2, 1, 1]", "1e39"}, weighted({.weights = "w"})),
          format("jsonl_prompts", {"{\"p\": \"ask\", \"c\": \"answer\", \"w\": 0.5}\n"}, {"\"c\": \"\"", "\\ud800"},
                 weighted({.prompt = "p", .completion = "c", .weights = "w"})),
          format("text_packed", {}, {}, rule(DocumentRule::line)), format("jsonl", {"{\"text\": \"a\", \"n\": 1}\n{\"text\": \"\\u00e4\\n\"}\n"}, words, rule(DocumentRule::jsonl)),
          format("text_blank_line", text, words, rule(DocumentRule::blank_line)), format("text_line", text, words, rule(DocumentRule::line)),
          format("text_separator", text, words, rule(DocumentRule::separator)), format("text_file", text, words, rule(DocumentRule::file))};
}

void read_safetensors(const fs::path& file) {
  const SafetensorsFile opened(file);
  for (const auto& [name, entry] : opened.entries()) {
    const at::Tensor tensor = opened.tensor(name);
    TRIREME_CHECK(tensor.numel() * static_cast<std::int64_t>(tensor.element_size()) == static_cast<std::int64_t>(entry.bytes()));
    if (tensor.numel() > 0) tensor.sum();
  }
}

void read_checkpoint(const fs::path& folder) {
  const CheckpointReader reader(folder);
  reader.check_model(small_model());
  for (const auto& [name, entry] : reader.index().tensors) reader.tensor(name);
  for (const model::ParameterSpec& p : model::parameters(reader.model())) reader.read(p);
}

void read_hf(const fs::path& folder) {
  const auto weights = open_weights(folder);
  const model::ModelSpec& m = weights->model();
  if (std::int64_t{m.num_layers} * (m.moe.num_experts + 1) > 1000) return;  // the list of its parameters would be long
  for (const model::ParameterSpec& p : model::parameters(m)) weights->read(p);
}

std::vector<Format> weight_formats() {
  model::ModelSpec mixtral{.name = "mixtral", .family = model::Family::mixtral, .vocab_size = 29, .hidden = 8, .num_layers = 2, .norm_eps = 1e-5};
  mixtral.attention = {.num_heads = 2, .num_kv_heads = 1, .head_dim = 4, .rope_theta = 1e6};
  mixtral.moe = {.num_experts = 4, .expert_ffn = 6};
  mixtral.moe.router.top_k = 2;
  const auto save = [](const model::ModelSpec& spec, const fs::path& folder) {
    RankPart rank = make_rank(spec, {}, 0);
    rank.model->initialise(3);
    rank.optimizer->adopt_values();
    CheckpointWriter writer({.folder = folder, .asynchronous = false, .model = spec}, std::make_shared<InProcessCommitBarrier>());
    writer.save(1, rank.owned(), {{"tokens_seen", 4096}, {"optimizer_steps", 1}, {"seed", 1}});
    return folder / checkpoint_name(1);
  };
  const fs::path run = save(small_model(), scratch_folder() / "checkpoints"), hf = scratch_folder() / "hf";
  export_hf(CheckpointReader(save(mixtral, scratch_folder() / "of_mixtral")), {.folder = hf, .max_shard_bytes = 4000});
  const fs::path one = scratch_folder() / "one.safetensors";
  const std::vector<NamedTensor> tensors = {{"a", at::arange(6, at::kFloat).view({2, 3})}, {"b", at::ones({3}, at::kBFloat16)}, {"c", at::zeros({0, 4})}};
  write_safetensors(one, tensors, {{"format", "pt"}});
  const std::vector<std::string> words = {"\"shape\":[18446744073709551615]", "\"dtype\":\"F16\"", "\"data_offsets\":[0,0]", "\"__metadata__\":1,", "[]", "null"};
  std::vector<Format> out = {
      with_file("safetensors", one, words, [one] { read_safetensors(one); }),
      with_file("checkpoint_index", run / index_file, {"\"step\": -1", "\"../x\"", "null"}, [run] { read_checkpoint(run); }),
      with_file("checkpoint_state", run / state_file, {"\"optimizer_steps\": 1e300", "null"}, [run] { read_checkpoint(run); }),
      with_file("checkpoint_model", run / model_file, {"[model.moe]"}, [run] { read_checkpoint(run); }),
      with_file("checkpoint_rank_file", run / rank_file(0), words, [run] { read_checkpoint(run); }),
      with_file("hf_folder_config", hf / "config.json", {"\"num_experts\": 3,", "null"}, [hf] { read_hf(hf); }),
      with_file("hf_index", hf / "model.safetensors.index.json", {"\"../x\"", "null", "[]"}, [hf] { read_hf(hf); })};
  return out;
}

void read_launch_env(const std::string& text) {
  comm::Environment environment;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (const auto equals = line.find('='); equals != std::string::npos) environment[line.substr(0, equals)] = line.substr(equals + 1);
  const comm::LaunchEnv e = comm::parse_launch_env(environment);
  TRIREME_CHECK(e.world >= 1 && e.rank >= 0 && e.rank < e.world, "rank {} of {}", e.rank, e.world);
}

}  // namespace

std::vector<Format> training_formats() {
  std::vector<Format> out = token_formats();
  for (auto&& list : {text_formats(), weight_formats()})
    for (const Format& f : list) out.push_back(f);
  out.push_back(format("launch_env",
                       {"RANK=1\nWORLD_SIZE=4\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=2\nMASTER_ADDR=n1\nMASTER_PORT=29500\nTORCHELASTIC_RESTART_COUNT=0\n",
                        "SLURM_PROCID=3\nSLURM_STEP_ID=0\nSLURM_STEP_NUM_TASKS=8\nSLURM_LOCALID=3\nSLURM_STEP_TASKS_PER_NODE=4(x2)\nSLURM_NODEID=0\n"
                        "SLURM_STEP_NODELIST=n[03-05,9],x1\nSLURM_JOB_ID=77\n"},
                       {"RANK=0\n", "WORLD_SIZE=2\n", "SLURM_NTASKS=2\n", "TRIREME_LAUNCHED=1\n", "(x2),3"}, read_launch_env));
  out.push_back(format("metrics_to_go_on",
                       {"{\"step\": 1, \"loss\": 5.5, \"aux_loss\": 1, \"tokens_seen\": 8}\n{\"step\": 2, \"loss\": 5.0, \"tokens_seen\": 16}\n"},
                       {"null", "\"step\": 1e300", "NaN"}, [](const std::string& text) {
                         const fs::path file = scratch_folder() / "metrics.jsonl";
                         write_file(file, text);
                         MetricsLog(file, 1);
                         read_metrics(file);
                       }));
  out.push_back(format("sentencepiece", {}, {}, [](const std::string& model) {
    const fs::path file = scratch_folder() / "pieces.model";
    write_file(file, model);
    const auto tokenizer = sentencepiece_tokenizer(file);
    std::vector<std::int32_t> tokens;
    tokenizer->encode("word and Größe \n", tokens);
    for (const std::int32_t token : tokens) TRIREME_CHECK(token >= 0 && token < tokenizer->vocab_size(), "token {}", token);
    tokenizer->decode(tokens);
  }));
  return out;
}

}  // namespace trireme::fuzz
