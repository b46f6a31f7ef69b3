#include "plan/layout_spec.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/pipeline/schedule.h"

namespace trireme::plan {

namespace {

// Bit i of a set is named names[i].
template <class Set>
Set from_names(const std::vector<std::string>& given, const std::vector<std::string>& names) {
  Set set;
  for (const std::string& name : given) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end())
      throw std::invalid_argument(fmt::format("\"{}\" is none of {}", name, fmt::join(names, ", ")));
    set.bits |= 1u << (at - names.begin());
  }
  return set;
}

std::vector<std::string> to_names(std::uint32_t bits, const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (bits & (1u << i)) out.push_back(names[i]);
  return out;
}

}  // namespace

bool ScheduleFile::operator==(const ScheduleFile& other) const {
  return path == other.path && !grid == !other.grid && (!grid || *grid == *other.grid);
}

const std::vector<std::string>& sharding_names() {
  static const std::vector<std::string> names = {"none", "optimizer", "gradients", "parameters"};
  return names;
}

const char* name_of(Sharding sharding) { return sharding_names()[static_cast<std::size_t>(sharding)].c_str(); }

Sharding sharding_from_name(const std::string& name) {
  const auto& names = sharding_names();
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end())
    throw std::invalid_argument(fmt::format("\"{}\" is none of {}", name, fmt::join(names, ", ")));
  return static_cast<Sharding>(at - names.begin());
}

const std::vector<std::string>& recompute_names() {
  static const std::vector<std::string> names = {"layer",      "attention", "core_attention", "mla_up_projection", "norm",
                                                 "activation", "permute",   "moe",            "mlp"};
  return names;
}

const std::vector<std::string>& swap_names() {
  static const std::vector<std::string> names = {"activations", "optimizer"};
  return names;
}

RecomputeSet recompute_from_names(const std::vector<std::string>& names) {
  return from_names<RecomputeSet>(names, recompute_names());
}
SwapSet swap_from_names(const std::vector<std::string>& names) { return from_names<SwapSet>(names, swap_names()); }
std::vector<std::string> names_of(RecomputeSet set) { return to_names(set.bits, recompute_names()); }
std::vector<std::string> names_of(SwapSet set) { return to_names(set.bits, swap_names()); }

}  // namespace trireme::plan
