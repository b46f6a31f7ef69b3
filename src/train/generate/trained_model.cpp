#include "train/generate/trained_model.h"

#include <fstream>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/regular_file.h"
#include "plan/run_spec.h"
#include "train/data/dataset_tokenizer.h"
#include "train/data/token_file.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;

void read_run(const fs::path& file, TrainedModel& out) {
  const plan::RunSpec run = plan::load_run(file);
  out.trained_length = run.batch.sequence_length;
  out.cut_at_documents = run.data.reset_at_documents;
  if (!run.data.train.empty() && run.data.train.front().prefix != "random") out.data = run.data.train.front().prefix;
}

nlohmann::json read_json(const fs::path& file) {
  std::ifstream in = open_regular(file);
  return in ? nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false) : nlohmann::json();
}

// A token or a list of them.
void read_end_tokens(const fs::path& file, std::vector<std::int32_t>& out) {
  const nlohmann::json config = read_json(file);
  if (!config.is_object()) return;
  const nlohmann::json ids = config.value("eos_token_id", nlohmann::json());
  for (const nlohmann::json& id : ids.is_array() ? ids : nlohmann::json::array({ids}))
    if (id.is_number_integer()) out.push_back(id.get<std::int32_t>());
}

bool data_begins_with(const std::string& prefix, std::int32_t bos) {
  if (bos < 0 || !fs::exists(prefix + ".idx")) return false;
  const TokenReader reader(prefix, {.file = "", .key = "--data"});
  std::int64_t first = -1;
  if (reader.num_tokens() > 0) reader.read(0, {&first, 1});
  return first == bos;
}

// Of a Hugging Face folder's tokenizer.
bool folder_begins_with_bos(const fs::path& folder) {
  const nlohmann::json config = read_json(folder / "tokenizer_config.json");
  return config.is_object() && config.contains("add_bos_token") && config["add_bos_token"].is_boolean() &&
         config["add_bos_token"].get<bool>();
}

}  // namespace

TrainedModel find_trained_model(const fs::path& path, const CheckpointChoice& choice) {
  const FoundWeights found = find_weights(path, choice);
  TrainedModel out{.weights = found.folder, .hugging_face = found.hugging_face, .step = found.step};
  if (found.hugging_face) {
    read_end_tokens(found.folder / "generation_config.json", out.end_tokens);
    if (out.end_tokens.empty()) read_end_tokens(found.folder / "config.json", out.end_tokens);
    const nlohmann::json config = read_json(found.folder / "config.json");
    const auto length =
        config.is_object() ? config.value("max_position_embeddings", nlohmann::json()) : nlohmann::json();
    if (length.is_number_integer()) out.trained_length = length.get<std::int64_t>();
  }
  if (found.run_file) read_run(*found.run_file, out);
  return out;
}

std::unique_ptr<nn::Model> load_model(const WeightSource& source, const nn::Hosted& hosted,
                                      const nn::ModelOptions& options) {
  const model::ModelSpec& spec = source.model();
  auto model = std::make_unique<nn::Model>(spec, hosted, options);
  load_weights(source, spec, model->parameters());
  at::NoGradGuard no_grad;
  for (int layer = hosted.layers.first_layer; layer < hosted.layers.first_layer + hosted.layers.num_layers; ++layer) {
    if (!spec.is_moe(layer) || !spec.moe.router.selection_bias) continue;
    const at::Tensor bias = source.selection_bias(layer);
    if (bias.defined()) model->selection_bias(layer).copy_(bias);
  }
  return model;
}

PromptTokens find_tokenizer(const TrainedModel& trained, const model::ModelSpec& model, const std::string& tokenizer,
                            const std::string& data) {
  PromptTokens out;
  bool begins = false;
  const auto from_data = [&](const std::string& prefix) {
    out.tokenizer = tokenizer_of_dataset(prefix);
    out.from = prefix;
    begins = data_begins_with(prefix, out.tokenizer->special().bos);
  };
  if (!tokenizer.empty()) {
    out.tokenizer = make_tokenizer(tokenizer);
    out.from = tokenizer;
    if (!data.empty()) begins = data_begins_with(data, out.tokenizer->special().bos);
  } else if (!data.empty()) {
    from_data(data);
  } else if (!trained.data.empty() && fs::exists(trained.data + ".meta.json")) {
    from_data(trained.data);
  } else if (trained.hugging_face && fs::exists(trained.weights / "tokenizer.json")) {
    out.tokenizer = make_tokenizer(trained.weights.string());
    out.from = (trained.weights / "tokenizer.json").string();
    begins = folder_begins_with_bos(trained.weights);
  } else if (trained.hugging_face && fs::exists(trained.weights / "tokenizer.model")) {
    out.tokenizer = make_tokenizer((trained.weights / "tokenizer.model").string());
    out.from = (trained.weights / "tokenizer.model").string();
    begins = folder_begins_with_bos(trained.weights);
  } else if (model.vocab_size == byte_tokenizer()->vocab_size()) {
    out.tokenizer = byte_tokenizer();
    out.from = "the vocabulary, which is that of bytes";
  } else {
    throw ConfigError(
        {.key = "--tokenizer",
         .allowed = fmt::format(
             "nothing says which tokenizer this model of {} tokens was trained with{}: name one, or the "
             "data set with --data PREFIX",
             model.vocab_size, trained.data.empty() ? "" : fmt::format(" ({}.meta.json is not there)", trained.data))});
  }
  if (out.tokenizer->vocab_size() > model.vocab_size)
    throw ConfigError({.key = "--tokenizer",
                       .value = out.from,
                       .allowed = fmt::format("has {} tokens, and the model has {}: it was trained with another one",
                                              out.tokenizer->vocab_size(), model.vocab_size)});
  const SpecialTokens special = out.tokenizer->special();
  if (begins && special.bos >= 0) out.begin = {special.bos};
  // Without a begin token the data's texts follow one another, each behind the end of the one before.
  if (!out.begin.empty())
    out.nothing = out.begin;
  else if (special.eos >= 0)
    out.nothing = {special.eos};
  else if (special.bos >= 0)
    out.nothing = {special.bos};
  return out;
}

}  // namespace trireme::train
