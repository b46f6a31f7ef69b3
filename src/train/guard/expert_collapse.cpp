#include "train/guard/expert_collapse.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"

namespace trireme::train {
namespace {

constexpr double nearly_all = 0.99;

}  // namespace

ExpertCollapse::ExpertCollapse(std::int64_t steps, const model::ModelSpec& model)
    : steps_(steps),
      first_layer_(model.num_dense_layers),
      highest_(model.moe.num_experts > model.moe.router.top_k
                   ? static_cast<double>(model.moe.num_experts) / static_cast<double>(model.moe.router.top_k)
                   : 0),
      in_a_row_(static_cast<std::size_t>(model.num_moe_layers())) {}

std::vector<std::string> ExpertCollapse::watch(const std::vector<double>& load_ratio, const std::vector<int>& busiest_expert) {
  std::vector<std::string> out;
  if (steps_ == 0 || highest_ == 0) return out;
  TRIREME_CHECK(load_ratio.size() == in_a_row_.size() && busiest_expert.size() == in_a_row_.size());
  for (std::size_t i = 0; i < in_a_row_.size(); ++i) {
    in_a_row_[i] = load_ratio[i] >= nearly_all * highest_ ? in_a_row_[i] + 1 : 0;
    if (in_a_row_[i] != steps_) continue;
    out.push_back(fmt::format("layer {}: expert {} gets {:.1f} % of all tokens, and one expert has got nearly all of them for "
                              "{} steps in a row: the router has collapsed",
                              first_layer_ + static_cast<int>(i), busiest_expert[i], 100 * load_ratio[i] / highest_, steps_));
  }
  return out;
}

nlohmann::json ExpertCollapse::state() const { return in_a_row_; }

void ExpertCollapse::restore(const nlohmann::json& state, const std::string& file, const std::string& key) {
  const auto fail = [&] {
    throw ConfigError({.file = file, .key = key, .value = state.dump(),
                       .allowed = fmt::format("must be a list of {} counts, one an MoE layer", in_a_row_.size())});
  };
  if (!state.is_array() || state.size() != in_a_row_.size()) fail();
  for (std::size_t i = 0; i < in_a_row_.size(); ++i) {
    if (!state[i].is_number_integer() || state[i].get<std::int64_t>() < 0) fail();
    in_a_row_[i] = state[i].get<std::int64_t>();
  }
}

}  // namespace trireme::train
