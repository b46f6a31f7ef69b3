#include "model/kernels.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/config_table.h"
#include "base/errors.h"
#include "model/kernel_files.h"

namespace trireme::model {

namespace {

const std::vector<std::string> loss_names = {"plain", "float32", "in_place", "chunked"};

// Every key with its field, in the order of the file.
template <class AnyKernels, class Use>
void each_key(AnyKernels& p, const Use& use) {
  use("flash_attention", p.flash_attention);
  use("dropout", p.dropout);
  use("fused_gate", p.fused_gate);
  use("fused_norm", p.fused_norm);
  use("wide_norm", p.wide_norm);
  use("remakes_norm", p.remakes_norm);
  use("remakes_activation", p.remakes_activation);
  use("fused_score", p.fused_score);
  use("views_of_projection", p.views_of_projection);
  use("rotation_kept_bytes", p.rotation_kept_bytes);
  use("routing_maps", p.routing_maps);
  use("routing_row_bytes", p.routing_row_bytes);
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
  use("tiled", p.tiled);
  use("permutes_by_token", p.permutes_by_token);
  use("norm_backward_passes", p.norm_backward_passes);
  use("router_forward_passes", p.router_forward_passes);
  use("router_backward_passes", p.router_backward_passes);
  use("router_loss_passes", p.router_loss_passes);
  use("embedding_backward_passes", p.embedding_backward_passes);
  use("attention_block_queries", p.attention_block_queries);
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

Kernels read(ConfigTable table, const std::string& name) {
  const std::string base = table.string_or("base", "plain");
  const auto names = kernels_names();
  if (std::find(names.begin(), names.end(), base) == names.end())
    table.fail("base", fmt::format("one of {}", fmt::join(names, ", ")));
  Kernels k = name == "plain" ? Kernels{} : find_kernels(base);
  k.name = table.string_or("name", name.empty() ? k.name : name);
  each_key(k, Reader{table});
  const std::string loss =
      table.one_of_or("loss", loss_names[static_cast<int>(k.loss)], {"plain", "float32", "in_place", "chunked"});
  k.loss = static_cast<LossKind>(std::find(loss_names.begin(), loss_names.end(), loss) - loss_names.begin());
  table.finish();
  return k;
}

}  // namespace

std::vector<std::string> kernels_names() {
  std::vector<std::string> names;
  for (const KernelFile& file : kernel_files()) names.emplace_back(file.name);
  return names;
}

Kernels find_kernels(const std::string& name) {
  for (const KernelFile& file : kernel_files())
    if (name == file.name)
      return read(ConfigTable::from_text(file.text, fmt::format("configs/kernels/{}.toml", name)), name);
  throw ConfigError(
      {.key = "kernels", .value = name, .allowed = fmt::format("one of {}", fmt::join(kernels_names(), ", "))});
}

Kernels load_kernels(const std::filesystem::path& path) {
  return read(ConfigTable::from_file(path), "");
}

Kernels parse_kernels(const std::string& toml, const std::string& file_name) {
  return read(ConfigTable::from_text(toml, file_name), "");
}

std::string to_toml(const Kernels& kernels) {
  std::string out = fmt::format("name = \"{}\"\n", kernels.name);
  each_key(kernels, [&](const char* key, const auto& value) { out += fmt::format("{} = {}\n", key, value); });
  out += fmt::format("loss = \"{}\"\n", loss_names[static_cast<int>(kernels.loss)]);
  return out;
}

}  // namespace trireme::model
