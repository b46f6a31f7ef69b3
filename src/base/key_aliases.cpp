#include "base/key_aliases.h"

#include <algorithm>
#include <utility>

namespace trireme {

namespace {

// Sources: Megatron-LM's `megatron/training/arguments.py`, transformers' TrainingArguments and model configs, torchtitan's
// job_config.py, DeepSpeed's JSON. Names in lower case, words joined by _.
constexpr std::pair<std::string_view, std::string_view> aliases[] = {
    {"lr", "train.optimizer.learning_rate"},
    {"max_lr", "train.optimizer.learning_rate"},
    {"learning_rate", "train.optimizer.learning_rate"},
    {"wd", "train.optimizer.weight_decay"},
    {"weight_decay", "train.optimizer.weight_decay"},
    {"adam_beta1", "train.optimizer.beta1"},
    {"adam_beta2", "train.optimizer.beta2"},
    {"adam_eps", "train.optimizer.eps"},
    {"adam_epsilon", "train.optimizer.eps"},
    {"epsilon", "train.optimizer.eps"},
    {"clip_grad", "train.optimizer.gradient_clip"},
    {"grad_clip", "train.optimizer.gradient_clip"},
    {"gradient_clipping", "train.optimizer.gradient_clip"},
    {"max_grad_norm", "train.optimizer.gradient_clip"},
    {"max_norm", "train.optimizer.gradient_clip"},
    {"lr_scheduler_type", "train.schedule.kind"},
    {"lr_decay_style", "train.schedule.kind"},
    {"scheduler", "train.schedule.kind"},
    {"decay_type", "train.schedule.kind"},
    {"lr_warmup_iters", "train.schedule.warmup_steps"},
    {"lr_warmup_steps", "train.schedule.warmup_steps"},
    {"num_warmup_steps", "train.schedule.warmup_steps"},
    {"warmup", "train.schedule.warmup_steps"},
    {"warmup_iters", "train.schedule.warmup_steps"},
    {"lr_wsd_decay_iters", "train.schedule.decay_steps"},
    {"min_lr", "train.schedule.min_ratio"},
    {"min_lr_ratio", "train.schedule.min_ratio"},
    {"min_lr_factor", "train.schedule.min_ratio"},
    {"max_steps", "train.steps"},
    {"num_steps", "train.steps"},
    {"train_steps", "train.steps"},
    {"train_iters", "train.steps"},
    {"iterations", "train.steps"},
    {"eval_interval", "train.eval_every"},
    {"eval_steps", "train.eval_every"},
    {"val_check_interval", "train.eval_every"},
    {"eval_iters", "train.eval_sequences"},
    {"logging_steps", "train.log_every"},
    {"log_interval", "train.log_every"},
    {"log_freq", "train.log_every"},
    {"random_seed", "train.seed"},
    {"save_steps", "checkpoint.every"},
    {"save_interval", "checkpoint.every"},
    {"save_total_limit", "checkpoint.keep"},
    {"keep_latest_k", "checkpoint.keep"},
    {"load_best_model_at_end", "checkpoint.keep_best"},
    {"initial_load_path", "checkpoint.initial"},
    {"pretrained_checkpoint", "checkpoint.initial"},
    {"load", "checkpoint.initial"},
    {"seq_length", "batch.sequence_length"},
    {"seq_len", "batch.sequence_length"},
    {"max_seq_length", "batch.sequence_length"},
    {"block_size", "batch.sequence_length"},
    {"context_length", "batch.sequence_length"},
    {"micro_batch_size", "batch.micro_batch"},
    {"local_batch_size", "batch.micro_batch"},
    {"per_device_train_batch_size", "batch.micro_batch"},
    {"train_micro_batch_size_per_gpu", "batch.micro_batch"},
    {"global_batch_size", "batch.global_batch"},
    {"train_batch_size", "batch.global_batch"},
    {"batch_size", "batch.global_batch"},
    {"pipeline_model_parallel_size", "layout.pp"},
    {"pipeline_parallel_degree", "layout.pp"},
    {"expert_model_parallel_size", "layout.ep"},
    {"expert_parallel_degree", "layout.ep"},
    {"data_parallel_size", "layout.dp"},
    {"data_parallel_shard_degree", "layout.dp"},
    {"data_parallel_replicate_degree", "layout.dp"},
    {"tensor_model_parallel_size", "layout.tp"},
    {"tensor_parallel_degree", "layout.tp"},
    {"context_parallel_size", "layout.cp"},
    {"context_parallel_degree", "layout.cp"},
    {"expert_tensor_parallel_size", "layout.etp"},
    {"pipeline_parallel_schedule", "layout.schedule"},
    {"num_layers_per_virtual_pipeline_stage", "layout.virtual_stages"},
    {"recompute_granularity", "layout.recompute"},
    {"activation_checkpointing", "layout.recompute"},
    {"gradient_checkpointing", "layout.recompute"},
    {"hidden_size", "model.hidden"},
    {"d_model", "model.hidden"},
    {"n_embd", "model.hidden"},
    {"dim", "model.hidden"},
    {"n_layer", "model.num_layers"},
    {"n_layers", "model.num_layers"},
    {"num_hidden_layers", "model.num_layers"},
    {"first_k_dense_replace", "model.num_dense_layers"},
    {"intermediate_size", "model.dense_ffn"},
    {"ffn_hidden_size", "model.dense_ffn"},
    {"padded_vocab_size", "model.vocab_size"},
    {"tie_word_embeddings", "model.tied_embeddings"},
    {"num_attention_heads", "model.attention.num_heads"},
    {"n_head", "model.attention.num_heads"},
    {"n_heads", "model.attention.num_heads"},
    {"num_key_value_heads", "model.attention.num_kv_heads"},
    {"n_kv_heads", "model.attention.num_kv_heads"},
    {"num_query_groups", "model.attention.num_kv_heads"},
    {"kv_channels", "model.attention.head_dim"},
    {"num_local_experts", "model.moe.num_experts"},
    {"n_routed_experts", "model.moe.num_experts"},
    {"moe_intermediate_size", "model.moe.expert_ffn"},
    {"moe_ffn_hidden_size", "model.moe.expert_ffn"},
    {"moe_shared_expert_intermediate_size", "model.moe.shared_ffn"},
    {"shared_expert_intermediate_size", "model.moe.shared_ffn"},
    {"moe_router_topk", "model.moe.router.top_k"},
    {"num_experts_per_tok", "model.moe.router.top_k"},
    {"moe_aux_loss_coeff", "model.moe.router.aux_loss"},
    {"router_aux_loss_coef", "model.moe.router.aux_loss"},
    {"moe_z_loss_coeff", "model.moe.router.z_loss"},
    {"router_z_loss_coef", "model.moe.router.z_loss"},
    {"data_path", "data.train"},
    {"train_data_path", "data.train"},
    {"dataset", "data.train"},
    {"dataset_path", "data.train"},
    {"train_file", "data.train"},
    {"validation_file", "data.valid"},
    {"valid_data_path", "data.valid"},
    {"params_dtype", "device.dtype"},
    {"torch_dtype", "device.dtype"},
    {"precision", "device.dtype"},
    {"output_dir", "folder"},
    {"save", "folder"},
    {"dump_folder", "folder"},
    {"distributed_timeout_minutes", "timeout_s"},
};

std::string normal(std::string_view name) {
  std::string out(name.substr(name.rfind('.') + 1));
  for (char& c : out) c = c == '-' ? '_' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

}  // namespace

std::string key_by_alias(std::string_view key, const std::vector<std::string>& known) {
  const std::string name = normal(key);
  for (const auto& [theirs, ours] : aliases)
    if (name == theirs && key != ours && std::find(known.begin(), known.end(), ours) != known.end()) return std::string(ours);
  return {};
}

}  // namespace trireme
