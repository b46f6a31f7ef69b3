// What other trainers call the keys of a run's file: Megatron-LM's options, Hugging Face's TrainingArguments and config.json,
// torchtitan's. For hints only: no file is read by these names.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// The full key of `known` ("train.optimizer.learning_rate") that another trainer's name for it, the last part of `key`
// ("train.optimizer.lr", "num-layers"), means; empty where it is no such name or `known` has none of its keys.
std::string key_by_alias(std::string_view key, const std::vector<std::string>& known);

}  // namespace trireme
