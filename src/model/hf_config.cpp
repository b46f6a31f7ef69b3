#include "model/hf_config.h"

#include <nlohmann/json.hpp>

#include "model/hf_families.h"

namespace trireme::model {
namespace {

struct KnownFamily {
  const char* model_type;
  ModelSpec (*read)(const HfReader&);
};

constexpr KnownFamily families[] = {
    {"deepseek_v2", from_hf_deepseek_v2}, {"deepseek_v3", from_hf_deepseek_v3},
    {"glm4_moe", from_hf_glm4_moe},       {"gpt_oss", from_hf_gpt_oss},
    {"kimi_k2", from_hf_deepseek_v3},     {"llama", from_hf_llama},
    {"mixtral", from_hf_mixtral},         {"olmoe", from_hf_olmoe},
    {"qwen2_moe", from_hf_qwen2_moe},     {"qwen3_moe", from_hf_qwen3_moe},
};

}  // namespace

ModelSpec from_hf_config(const nlohmann::json& config, const std::string& file) {
  const HfReader top(config, file);
  // A multimodal model: its language model stands in an object of its own, by which errors then name keys.
  const bool nested = config.contains("text_config") && config["text_config"].is_object() && !config.contains("hidden_size");
  const HfReader hf = nested ? top.object("text_config") : top;
  const auto type = hf.get<std::string>("model_type", "");
  std::string known;
  for (const KnownFamily& family : families) {
    if (type == family.model_type) {
      ModelSpec spec = family.read(hf);
      validate(spec, file);
      return spec;
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", family.model_type);
  }
  hf.fail("model_type", "must be one of " + known);
}

}  // namespace trireme::model
