// Hugging Face config.json <-> ModelSpec, for the families of model::Family.
#pragma once
#include <nlohmann/json.hpp>

#include "model/model_spec.h"

namespace trireme::model {

// `file` is for errors. Reads both `rope_theta` (transformers 4) and `rope_parameters` (transformers 5). A setting that
// would change the mathematics and that we don't have (sliding window in use, another activation) is a ConfigError.
ModelSpec from_hf_config(const nlohmann::json& config, const std::string& file);

// The config.json that transformers needs to load an exported checkpoint. ConfigError when the family can't express the
// model (shared experts in Mixtral, ...), naming the key.
nlohmann::json to_hf_config(const ModelSpec& spec, Family family);

}  // namespace trireme::model
