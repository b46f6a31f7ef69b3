// What `nn` does not compute yet. Planning answers for every valid spec; a training run needs the list to be empty.
#pragma once
#include <string>
#include <vector>

#include "model/model_spec.h"

namespace trireme::model {

struct Untrainable {
  std::string key;     // dotted: model.attention.kind
  std::string value;   // as TOML writes it
  std::string reason;  // "latent attention"
};

// In the order of the keys' tables; empty: trainable.
std::vector<Untrainable> untrainable(const ModelSpec& spec);

// One ConfigError naming the first key and listing every reason, where there are any.
void refuse_untrainable(const ModelSpec& spec, const std::string& file);

}  // namespace trireme::model
