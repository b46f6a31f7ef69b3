// What an exported folder holds beside the weights: what config.json has more than the model says, the tokenizer, generation
// settings. A run collects it in <run folder>/hf/ when it starts, and each checkpoint has a copy, so that it can be exported
// when the data and the imported folder are gone.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "plan/run_spec.h"
#include "train/hf/hf_tokenizer.h"

namespace trireme::train {

// The Hugging Face folder that the run's weights, else its model, come from; empty where there is none. A checkpoint that
// stands in checkpoint.initial has its own in hf/.
std::filesystem::path hf_origin(const plan::RunSpec& run);

// Writes the folder: the origin's config.json, with this tokenizer's ids where it is another one's, and tokenizer files of
// the run's data, else of the origin. Returns what the user should know; empty: nothing.
std::string write_companions(const std::filesystem::path& folder, const plan::RunSpec& run);

// The same for a tokenizer that is named when a model is exported: replaces the tokenizer's files and ids.
std::string replace_tokenizer(const std::filesystem::path& folder, const HfTokenizer& tokenizer);

// Before a fresh start writes them: ConfigError with the first entry of the folder that write_companions() does not write (an
// export of weights, files of the user's), which would be mixed with a run's.
void check_companions(const std::filesystem::path& folder);
// Removes what write_companions() writes and nothing else.
void remove_companions(const std::filesystem::path& folder);

// The config.json to write: `ours` (model::to_hf_config) with what hf/config.json has more. Where the two say the same
// model, the imported one stays as it was; else our values win.
nlohmann::ordered_json merged_config(const nlohmann::json& ours, const std::filesystem::path& companions);

}  // namespace trireme::train
