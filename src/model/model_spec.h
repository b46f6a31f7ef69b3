// An architecture as a value: what `nn` builds, what `plan` cuts and what `sim` prices.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/config_table.h"

namespace trireme::model {

struct AttentionSpec {
  int num_heads = 0;
  int num_kv_heads = 0;  // grouped-query attention: divides num_heads
  int head_dim = 0;
  bool qk_norm = false;  // RMSNorm of each query and key head before the rotation (Qwen3)
  bool bias = false;     // of the q, k, v projections (and of the output projection where output_bias)
  bool output_bias = false;
  double rope_theta = 10000.0;
  bool operator==(const AttentionSpec&) const = default;
};

enum class ScoreFunction { softmax, sigmoid };
enum class AuxLossLevel { micro_batch, sequence };

struct RouterSpec {
  int top_k = 0;
  ScoreFunction score = ScoreFunction::softmax;  // in max(float32, dtype)
  bool renormalise = true;                       // selected scores divided by their sum
  double scale = 1.0;                            // multiplies the (renormalised) scores
  int num_groups = 1;                            // group-limited selection (DeepSeek-V3): experts in num_groups groups,
  int top_groups = 1;                            // only the best top_groups (by the sum of their two best scores) compete
  bool selection_bias = false;                   // auxiliary-loss-free balancing: a bias that only selection sees
  double selection_bias_rate = 1e-3;             // its step: bias += rate * sign(mean count - count), once a step
  double aux_loss_coefficient = 0.0;             // load balance: E / (k T) * sum_e count_e * (1/T) sum_t prob_te
  AuxLossLevel aux_loss_level = AuxLossLevel::sequence;
  double z_loss_coefficient = 0.0;               // mean over tokens of logsumexp(logits)^2
  bool operator==(const RouterSpec&) const = default;
};

struct MoeSpec {
  int num_experts = 0;  // 0: a dense model
  int expert_ffn = 0;   // width of one expert
  int shared_ffn = 0;   // width of the shared expert (several shared experts are one of their summed width); 0: none
  RouterSpec router;
  bool operator==(const MoeSpec&) const = default;
};

// Where an imported config came from; export writes the same family.
enum class Family { trireme, mixtral, qwen3_moe };

struct ModelSpec {
  std::string name = "model";
  Family family = Family::trireme;
  std::int64_t vocab_size = 0;
  int hidden = 0;
  int num_layers = 0;
  int num_dense_layers = 0;  // the first ones, with a dense feed-forward of width dense_ffn; the rest are MoE layers
  int dense_ffn = 0;
  double norm_eps = 1e-6;
  bool tied_embeddings = false;
  double init_std = 0.02;  // embedding and projections; norms start at 1
  AttentionSpec attention;
  MoeSpec moe;
  bool operator==(const ModelSpec&) const = default;

  bool is_moe(int layer) const { return moe.num_experts > 0 && layer >= num_dense_layers; }
  int num_moe_layers() const { return moe.num_experts > 0 ? num_layers - num_dense_layers : 0; }
};

// Throws ConfigError naming the offending key ("model.moe.top_k") when the values don't fit together. `file` is for the
// error's text.
void validate(const ModelSpec& spec, const std::string& file);

// A `[model]` table (inline keys), validated; unknown keys are left to the table's finish(). Keys: docs/config.md.
ModelSpec read_model(ConfigTable& table);
std::string to_toml(const ModelSpec& spec);  // "[model]" and its sub-tables, every key

// Either a TOML file with a [model] table or a Hugging Face config.json (Mixtral, Qwen3-MoE; transformers 4 and 5), told
// apart by the ending .json. Overrides as of ConfigTable ("model.hidden=64").
ModelSpec load_model(const std::filesystem::path& path, const std::vector<std::string>& overrides = {});

}  // namespace trireme::model
