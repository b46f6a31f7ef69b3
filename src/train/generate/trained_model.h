// What a path on the command line means as a trained model: where its weights lie, and what its run or its folder says
// of tokens and lengths.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/model.h"
#include "train/checkpoint/weight_source.h"
#include "train/data/tokenizer.h"

namespace trireme::train {

struct TrainedModel {
  std::filesystem::path weights;  // a checkpoint folder, or a Hugging Face one
  bool hugging_face = false;
  std::optional<std::int64_t> step;      // of a checkpoint
  std::int64_t trained_length = 0;       // tokens of a sequence in training; 0: not known
  std::vector<std::int32_t> end_tokens;  // that a Hugging Face folder names; the tokenizer may name another
  bool cut_at_documents = false;         // data.reset_at_documents: nothing is learned of how a text begins
  std::string data;                      // prefix of the run's first training set; empty: not known
};

// Of the weights that find_weights finds.
TrainedModel find_trained_model(const std::filesystem::path& path, const CheckpointChoice& choice = {});

// A part of the model (nn::whole_model: all of it) with the source's weights and selection biases.
std::unique_ptr<nn::Model> load_model(const WeightSource& source, const nn::Hosted& hosted,
                                      const nn::ModelOptions& options);

// How prompts become tokens.
struct PromptTokens {
  std::unique_ptr<Tokenizer> tokenizer;
  std::string from;                   // where it was found, for a message
  std::vector<std::int32_t> begin;    // what every text of the training data begins with: a begin token or nothing
  std::vector<std::int32_t> nothing;  // what an empty prompt becomes; empty: the tokenizer has no token for it
};

// By `tokenizer` ("byte", a file, a folder), else by `data` (a data set's prefix), else the run's data set, else the
// files in a Hugging Face folder, else bytes where the vocabulary is exactly theirs. ConfigError (--tokenizer) where
// there is none, or where it has more tokens than the model.
PromptTokens find_tokenizer(const TrainedModel& trained, const model::ModelSpec& model, const std::string& tokenizer,
                            const std::string& data);

}  // namespace trireme::train
