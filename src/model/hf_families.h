// One reader a family of transformers' models: a config.json -> ModelSpec, not yet validated.
#pragma once
#include "model/hf_reader.h"

namespace trireme::model {

ModelSpec from_hf_llama(const HfReader& hf);  // Llama 1 to 3: dense
ModelSpec from_hf_mixtral(const HfReader& hf);
ModelSpec from_hf_qwen2_moe(const HfReader& hf);
ModelSpec from_hf_qwen3_moe(const HfReader& hf);
ModelSpec from_hf_olmoe(const HfReader& hf);
ModelSpec from_hf_gpt_oss(const HfReader& hf);
ModelSpec from_hf_deepseek_v2(const HfReader& hf);
ModelSpec from_hf_deepseek_v3(const HfReader& hf);  // and Kimi-K2, which has its keys
ModelSpec from_hf_glm4_moe(const HfReader& hf);     // GLM-4.5, 4.5-Air, 4.6

}  // namespace trireme::model
