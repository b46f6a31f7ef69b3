#include "platform/stack_profile.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/config_table.h"
#include "base/errors.h"
#include "base/read_file.h"

namespace trireme::platform {

const std::array<std::string_view, num_device_parameters> device_parameter_names{
    "gemm", "narrow_gemm", "gemm_half_rows", "attention", "memory", "node_link", "network_link", "operation_us"};
const std::array<std::string_view, num_stack_parameters> stack_parameter_names{"slow_down", "overlap", "launch_us"};

std::array<double*, num_device_parameters> parameters(DeviceEfficiency& e) {
  return {&e.gemm,   &e.narrow_gemm, &e.gemm_half_rows, &e.attention,
          &e.memory, &e.node_link,   &e.network_link,   &e.operation_s};
}

std::array<double*, num_stack_parameters> parameters(StackBehaviour& b) {
  return {&b.slow_down, &b.overlap, &b.launch_s};
}

namespace {

bool in_microseconds(std::string_view name) {
  return name.ends_with("_us");
}

// Efficiencies are shares of what a data sheet promises: above 1 the data sheet would be wrong.
double highest(std::string_view name) {
  if (name == "gemm_half_rows" || name == "slow_down") return 1e6;
  return in_microseconds(name) ? 1e6 : 1;
}

template <class Values, std::size_t N>
void read_values(ConfigTable& t, Values& values, const std::array<std::string_view, N>& names) {
  const auto slots = parameters(values);
  for (std::size_t i = 0; i < N; ++i) {
    const double unit = in_microseconds(names[i]) ? 1e-6 : 1;
    const bool may_be_zero = names[i] == "overlap" || in_microseconds(names[i]);
    *slots[i] = t.number_or(names[i], *slots[i] / unit, may_be_zero ? 0 : 1e-9, highest(names[i])) * unit;
  }
}

template <class Values, std::size_t N>
std::string show_values(Values values, const std::array<std::string_view, N>& names) {
  const auto slots = parameters(values);
  std::string out;
  for (std::size_t i = 0; i < N; ++i)
    out += fmt::format("{} = {:.6g}\n", names[i], *slots[i] / (in_microseconds(names[i]) ? 1e-6 : 1));
  return out;
}

}  // namespace

std::string family_of_device(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 12> families{
      {{"A100", "ampere"},
       {"GB200", "blackwell"},
       {"GB300", "blackwell"},
       {"B200", "blackwell"},
       {"B300", "blackwell"},
       {"GH200", "hopper"},
       {"H100", "hopper"},
       {"H200", "hopper"},
       {"H800", "hopper"},
       {"MI25", "cdna2"},
       {"MI3", "cdna3"},
       {"Ascend-910", "ascend_910"}}};
  for (const auto& [prefix, family] : families)
    if (name.starts_with(prefix)) return std::string(family);
  return std::string(name);
}

std::string family_of_stack(std::string_view name) {
  const auto at = name.find_last_of('_');
  if (at == std::string_view::npos) return std::string(name);
  const bool release = at + 1 < name.size() && name.find_first_not_of("0123456789.", at + 1) == std::string_view::npos;
  return std::string(release ? name.substr(0, at) : name);
}

namespace {

// The entry of this name, else the first one of its family, else a default one; `known` is true only of its own entry.
template <class Entry>
Entry entry_of(const std::vector<Entry>& entries, std::string Entry::*name, std::string_view wanted,
               const std::string& family, bool* known) {
  const auto named = [&](std::string_view as) {
    return std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.*name == as; });
  };
  const auto own = named(wanted);
  if (known) *known = own != entries.end();
  const auto found = own != entries.end() ? own : named(family);
  return found != entries.end() ? *found : Entry{};
}

}  // namespace

DeviceEfficiency StackProfile::device(std::string_view wanted, bool* known) const {
  return entry_of(devices, &DeviceEntry::device, wanted, family_of_device(wanted), known).values;
}

StackBehaviour StackProfile::stack(std::string_view wanted, bool* known) const {
  return entry_of(stacks, &StackEntry::name, wanted, family_of_stack(wanted), known).values;
}

StackProfile parse_stack_profile(const std::string& toml, const std::string& file_name) {
  ConfigTable t = ConfigTable::from_text(toml, file_name);
  StackProfile p;
  p.name = t.string("name");
  for (ConfigTable& d : t.tables("device")) {
    DeviceEntry entry{.device = d.string("name"), .values = {}};
    read_values(d, entry.values, device_parameter_names);
    p.devices.push_back(entry);
  }
  for (ConfigTable& s : t.tables("stack")) {
    StackEntry entry{.name = s.string("name"), .values = {}};
    read_values(s, entry.values, stack_parameter_names);
    entry.rows = static_cast<int>(s.integer_or("rows", 0, 0, 1 << 30));
    entry.median_error = s.number_or("median_error", 0, 0);
    entry.held_out_error = s.number_or("held_out_error", 0, 0);
    p.stacks.push_back(entry);
  }
  t.finish();
  return p;
}

StackProfile load_stack_profile(const std::filesystem::path& path) {
  return parse_stack_profile(read_file(path), path.string());
}

std::string to_toml(const StackProfile& p) {
  std::string out = fmt::format("name = {}\n", nlohmann::json(p.name).dump());
  for (const DeviceEntry& d : p.devices)
    out += fmt::format("\n[[device]]\nname = {}\n", nlohmann::json(d.device).dump()) +
           show_values(d.values, device_parameter_names);
  for (const StackEntry& s : p.stacks) {
    out += fmt::format("\n[[stack]]\nname = {}\n", nlohmann::json(s.name).dump()) +
           show_values(s.values, stack_parameter_names);
    if (s.rows > 0)
      out += fmt::format("rows = {}\nmedian_error = {:.4f}\nheld_out_error = {:.4f}\n", s.rows, s.median_error,
                         s.held_out_error);
  }
  return out;
}

void save_stack_profile(const StackProfile& profile, const std::filesystem::path& path) {
  write_file_atomically(path, to_toml(profile));
}

}  // namespace trireme::platform
