// train.freeze: patterns over the global names of parameters (model/parameters.h), in the shell's syntax: `*` stands for
// any characters, dots included, `?` for one, `[0-3]` for one of a range. A router's selection bias is no parameter, but
// is named and held as one is.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/model_spec.h"

namespace trireme::plan {

class FrozenParameters {
 public:
  FrozenParameters() = default;  // none
  explicit FrozenParameters(std::vector<std::string> patterns) : patterns_(std::move(patterns)) {}

  bool empty() const { return patterns_.empty(); }
  bool has(const std::string& name) const;
  // How many of the model's parameters these freeze and `others` do not.
  std::int64_t count_without(const FrozenParameters& others, const model::ModelSpec& model) const;

  // Why a model cannot be trained with these, to follow "train.freeze = [...]: "; empty: it can. A pattern that names
  // nothing is given with the nearest kinds of names, and something must be left to train.
  std::string problem(const model::ModelSpec& model) const;

 private:
  std::vector<std::string> patterns_;
};

std::string selection_bias_name(int layer);  // "layers.3.router.selection_bias"

}  // namespace trireme::plan
