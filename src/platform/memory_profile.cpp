#include "platform/memory_profile.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/config_table.h"
#include "base/errors.h"
#include "base/units.h"

namespace trireme::platform {

namespace {

const std::vector<std::string> loss_names = {"plain", "float32", "in_place", "chunked"};

// Every key with its field, in the order of the file.
template <class Profile, class Use>
void each_key(Profile& p, const Use& use) {
  use("flash_attention", p.flash_attention);
  use("dropout", p.dropout);
  use("fused_gate", p.fused_gate);
  use("fused_norm", p.fused_norm);
  use("rotated_copies", p.rotated_copies);
  use("norm_statistics", p.norm_statistics);
  use("scores_on_output", p.scores_on_output);
  use("unsorting_keeps_rows", p.unsorting_keeps_rows);
  use("sorts_received_rows", p.sorts_received_rows);
  use("exchanged_rows_stay", p.exchanged_rows_stay);
  use("pads_to_capacity", p.pads_to_capacity);
  use("last_gradients_stay", p.last_gradients_stay);
  use("context_output_twice", p.context_output_twice);
  use("caches_float8_weights", p.caches_float8_weights);
  use("loss_chunk_tokens", p.loss_chunk_tokens);
  use("router_score_bytes", p.router_score_bytes);
  use("vocabulary_multiple", p.vocabulary_multiple);
  use("vocabulary_extra", p.vocabulary_extra);
  use("unused_weight_gradients", p.unused_weight_gradients);
  use("gemm_workspace_bytes", p.gemm_workspace_bytes);
  use("head_gemm_workspace_bytes", p.head_gemm_workspace_bytes);
  use("grouped_gemm_workspace_bytes", p.grouped_gemm_workspace_bytes);
  use("attention_workspace_bytes", p.attention_workspace_bytes);
  use("rotary_table_bytes", p.rotary_table_bytes);
  use("gathered_layers", p.gathered_layers);
  use("reduced_layers", p.reduced_layers);
  use("optimizer_slices", p.optimizer_slices);
  use("swapped_layers", p.swapped_layers);
  use("context_bytes", p.context_bytes);
  use("communicator_bytes", p.communicator_bytes);
  use("all_to_all_bytes", p.all_to_all_bytes);
  use("fragmentation", p.fragmentation);
}

struct Reader {
  ConfigTable& table;
  void operator()(const char* key, bool& value) const { value = table.boolean_or(key, value); }
  void operator()(const char* key, double& value) const { value = table.number_or(key, value, 0); }
  template <class Integer>
  void operator()(const char* key, Integer& value) const {
    const std::string_view k = key;
    const bool at_least_one = k == "loss_chunk_tokens" || k == "vocabulary_multiple" || k == "optimizer_slices" ||
                              k == "gathered_layers" || k == "reduced_layers";
    value = static_cast<Integer>(table.integer_or(key, value, at_least_one ? 1 : 0, 1 << 30));
  }
};

MemoryProfile read(ConfigTable table) {
  const std::string base = table.string_or("base", "plain");
  const auto names = memory_profile_names();
  if (std::find(names.begin(), names.end(), base) == names.end())
    table.fail("base", fmt::format("one of {}", fmt::join(names, ", ")));
  MemoryProfile p = memory_profile(base);
  p.name = table.string_or("name", p.name);
  each_key(p, Reader{table});
  const std::string loss =
      table.one_of_or("loss", loss_names[static_cast<int>(p.loss)], {"plain", "float32", "in_place", "chunked"});
  p.loss = static_cast<LossKind>(std::find(loss_names.begin(), loss_names.end(), loss) - loss_names.begin());
  table.finish();
  return p;
}

// Megatron-LM core 0.14 on Transformer Engine 2.11, PyTorch 2.10, a device of compute capability 9 or higher.
MemoryProfile megatron() {
  MemoryProfile p;
  p.name = "megatron";
  p.loss = LossKind::in_place;        // Transformer Engine's parallel_cross_entropy writes the gradient over its input
  p.vocabulary_multiple = 128;        // --make-vocab-size-divisible-by
  p.vocabulary_extra = 1;             // NullTokenizer's end of document
  p.exchanged_rows_stay = true;       // MoELayer.forward's and combine's local variables
  p.last_gradients_stay = true;       // input_tensor_grad and output_tensor_grad of forward_backward_pipelining
  p.context_output_twice = true;      // attention with all-to-all context parallelism, Transformer Engine 2.8 and later
  p.unused_weight_gradients = true;   // get_dummy_wgrad
  p.gemm_workspace_bytes = 32 * MiB;  // get_cublas_workspace
  p.head_gemm_workspace_bytes =
      2 * 8.125 * MiB;  // torch.matmul: cuBLAS :4096:2:16:8 of the forward's and the backward's thread
  p.grouped_gemm_workspace_bytes = 4 * 32 * MiB;  // one for each of get_num_cublas_streams()
  p.rotary_table_bytes = 4;                       // RotaryEmbedding caches float32 angles
  p.attention_workspace_bytes = 4;                // dQ is accumulated in float32
  p.fragmentation = 0.048;           // median of reserved / allocated - 1 over SimuMax's ten published B200 layouts
  p.context_bytes = 1.06e9;          // beyond PyTorch's on an H100 before the first all-to-all (NVIDIA/nccl#1685)
  p.all_to_all_bytes = 3.28e9;       // what the first all-to-all of 8 ranks adds (the same issue: 4.34 - 1.06 GB)
  p.communicator_bytes = 388 * MiB;  // each further group of one process (sgl-project/sglang#35538)
  return p;
}

// torchtitan, eager, SDPA, full logits in cross_entropy.
MemoryProfile torchtitan() {
  MemoryProfile p;
  p.name = "torchtitan";
  p.fused_gate = false;       // w2(silu(w1 x) * w3 x): both halves, the activated one and the product stay
  p.scores_on_output = true;  // routed outputs are multiplied by their scores after the combine
  p.context_bytes = megatron().context_bytes;
  p.communicator_bytes = megatron().communicator_bytes;
  p.all_to_all_bytes = megatron().all_to_all_bytes;
  return p;
}

// MindSpeed on Ascend: Megatron's modules on torch_npu's operators.
MemoryProfile mindspeed() {
  MemoryProfile p;
  p.name = "mindspeed";
  p.vocabulary_multiple = 128;
  p.scores_on_output = true;      // npu_moe_token_unpermute weights the rows, and keeps them
  p.unsorting_keeps_rows = true;  // the same operator without scores keeps them all the same
  p.last_gradients_stay = true;
  p.communicator_bytes = 200 * MiB;  // HCCL's default buffer of a group
  return p;
}

// One operator for each line of a model's source, as in a reference implementation; only the attention is fused.
MemoryProfile eager() {
  MemoryProfile p;
  p.name = "eager";
  p.fused_gate = false;
  p.fused_norm = false;
  p.scores_on_output = true;
  p.unsorting_keeps_rows = true;
  p.loss = LossKind::plain;
  return p;
}

// What Korthikanti et al. 2022 (arXiv 2205.05198) count: scores stored, dropout, norms without statistics.
MemoryProfile korthikanti() {
  MemoryProfile p;
  p.name = "korthikanti";
  p.flash_attention = false;
  p.dropout = true;
  p.norm_statistics = false;
  return p;
}

}  // namespace

std::vector<std::string> memory_profile_names() {
  return {"plain", "eager", "megatron", "torchtitan", "mindspeed", "korthikanti"};
}

MemoryProfile memory_profile(const std::string& name) {
  if (name == "plain") return {};
  if (name == "eager") return eager();
  if (name == "megatron") return megatron();
  if (name == "torchtitan") return torchtitan();
  if (name == "mindspeed") return mindspeed();
  if (name == "korthikanti") return korthikanti();
  throw ConfigError({.key = "memory_profile",
                     .value = name,
                     .allowed = fmt::format("one of {}", fmt::join(memory_profile_names(), ", "))});
}

MemoryProfile load_memory_profile(const std::filesystem::path& path) {
  return read(ConfigTable::from_file(path));
}

MemoryProfile parse_memory_profile(const std::string& toml, const std::string& file_name) {
  return read(ConfigTable::from_text(toml, file_name));
}

std::string to_toml(const MemoryProfile& profile) {
  std::string out = fmt::format("name = \"{}\"\n", profile.name);
  each_key(profile, [&](const char* key, const auto& value) { out += fmt::format("{} = {}\n", key, value); });
  out += fmt::format("loss = \"{}\"\n", loss_names[static_cast<int>(profile.loss)]);
  return out;
}

}  // namespace trireme::platform
