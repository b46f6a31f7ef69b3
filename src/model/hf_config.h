// Hugging Face config.json <-> ModelSpec. Read: DeepSeek-V2 and V3, GLM-4.5 (glm4_moe), GPT-OSS, Kimi-K2, Llama,
// Mixtral, OLMoE, Qwen2-MoE, Qwen3-MoE. Written: the families of model::Family.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "model/model_spec.h"

namespace trireme::model {

// `file` is for errors. Reads both transformers 4's keys (`rope_theta`, `rope_scaling`) and 5's (`rope_parameters`). A
// setting that would change the mathematics and that ModelSpec can't say (another activation, dropout) is a
// ConfigError; what it can say and `nn` doesn't compute is untrainable.h's. The family of models that can't be written
// is trireme.
ModelSpec from_hf_config(const nlohmann::json& config, const std::string& file);

// The config.json that transformers needs to load an exported checkpoint. ConfigError when the family can't express the
// model (shared experts in Mixtral, ...), naming the key.
nlohmann::json to_hf_config(const ModelSpec& spec, Family family);

}  // namespace trireme::model
