// A call of `trireme generate`: what its options ask for, and the texts once there is something to compute logits with.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "train/generate/generator.h"
#include "train/generate/trained_model.h"
#include "trireme/commands.h"
#include "trireme/prompts.h"

namespace trireme::apps {

struct GenerateCall {
  std::string source, tokenizer, data, dtype = "float32";
  train::CheckpointChoice checkpoint;
  PromptOptions prompts;
  train::GenerateOptions generate;
  std::int64_t samples = 1;
  int threads = 0;
  int pp = 1, ep = 1;  // ranks: stages, and blocks of experts of each
  double timeout_s = 600;
  std::vector<std::string> stops;
  bool json = false;
};

// The model that a call means, opened: no weights read yet.
struct OpenModel {
  train::TrainedModel trained;
  std::unique_ptr<train::WeightSource> weights;
  nn::ModelOptions options;
  const model::ModelSpec& spec() const { return weights->model(); }
};
OpenModel open_model(const GenerateCall& call);

// Reads a rank's part of the weights, which may take a while: rank 0 says so.
std::unique_ptr<nn::Model> read_part(const OpenModel& model, const nn::Hosted& hosted, int rank);

// Everything that is found out before anything is computed. ConfigError for whatever the options have wrong.
struct TextPlan {
  train::PromptTokens tokens;
  std::vector<Prompt> prompts;
  train::GenerateOptions options;
  std::vector<train::Request> requests;
  std::int64_t capacity = 0;  // tokens of the longest text
};
TextPlan plan_texts(const GenerateCall& call, const OpenModel& model);

// ConfigError where keys and values would be larger than the machine's memory.
void check_cache(const nn::Model& part, const TextPlan& texts);

// Says what it is about to do, makes the texts and shows them. `cache_bytes`: of this rank.
void write_texts(const GenerateCall& call, const OpenModel& model, const TextPlan& texts, const train::Decoder& decoder,
                 std::int64_t cache_bytes);

// The call on pp x ep ranks of this host, or as one rank of a launcher's; returns the exit code.
int generate_on_ranks(const GenerateCall& call, const Context& context);

}  // namespace trireme::apps
