#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "train/checkpoint/weight_source.h"

namespace trireme::train {
namespace {

using Keys = std::vector<std::pair<std::string, std::string>>;

// Names, initial values and what only the loss or the balancing sees: another value trains the same function.
const std::vector<std::string> may_differ = {"model.name",
                                             "model.family",
                                             "model.init_std",
                                             "model.moe.router.aux_loss_coefficient",
                                             "model.moe.router.aux_loss_level",
                                             "model.moe.router.z_loss_coefficient",
                                             "model.moe.router.selection_bias_rate"};

// Every key of the model in the order of its TOML form, so that a key which a model gets later is compared as well.
Keys keys_of(const model::ModelSpec& spec) {
  Keys out;
  std::istringstream lines(model::to_toml(spec));
  std::string table;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('[')) table = line.substr(1, line.find(']') - 1);
    const auto equals = line.find(" = ");
    if (equals == std::string::npos) continue;
    out.emplace_back(table + "." + line.substr(0, equals), line.substr(equals + 3));
  }
  return out;
}

// Of parts that neither model has.
bool without_meaning(const std::string& key, const model::ModelSpec& a, const model::ModelSpec& b) {
  const bool experts = a.moe.num_experts > 0 || b.moe.num_experts > 0;
  const bool linear = a.linear.kind != model::LinearMixerKind::none || b.linear.kind != model::LinearMixerKind::none;
  return (!experts && key.starts_with("model.moe.")) || (!linear && key.starts_with("model.linear."));
}

}  // namespace

void check_same_model(const model::ModelSpec& found, const model::ModelSpec& wanted, const std::string& file) {
  const Keys a = keys_of(found), b = keys_of(wanted);
  std::vector<std::size_t> different;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && std::ranges::find(may_differ, a[i].first) == may_differ.end() &&
        !without_meaning(a[i].first, found, wanted))
      different.push_back(i);
  if (different.empty()) return;
  std::vector<std::string> others;
  for (std::size_t i = 1; i < different.size(); ++i)
    others.push_back(fmt::format("{} = {} against {}", a[different[i]].first, a[different[i]].second, b[different[i]].second));
  const auto& [key, value] = a[different[0]];
  throw ConfigError(
      {.file = file,
       .key = key,
       .value = value,
       .allowed = fmt::format("the run's model has {}{}: these weights are another model's. Only its name, initial values "
                              "and loss coefficients may differ",
                              b[different[0]].second,
                              others.empty() ? "" : fmt::format(" (also {})", fmt::join(others, ", ")))});
}

}  // namespace trireme::train
