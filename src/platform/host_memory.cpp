#include "platform/host_memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include <fmt/format.h>

#include "base/units.h"

namespace trireme::platform {

namespace fs = std::filesystem;

namespace {

// A limit above this is none: version 1 writes 2^63 less a page where nothing is set.
constexpr double no_limit = 1e18;

// A file of "name value" or "name: value kB" lines, in bytes.
std::map<std::string, double> read_table(const fs::path& file) {
  std::map<std::string, double> out;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name, unit;
    double value = 0;
    if (!(words >> name >> value)) continue;
    words >> unit;
    if (name.ends_with(':')) name.pop_back();
    out[name] = unit == "kB" ? value * KiB : value;
  }
  return out;
}

std::optional<double> read_number(const fs::path& file) {
  std::ifstream in(file);
  double value = 0;
  if (!(in >> value)) return {};  // "max", or there is no such file
  return value;
}

double entry(const std::map<std::string, double>& table, const char* name) {
  const auto at = table.find(name);
  return at == table.end() ? 0 : at->second;
}

struct GroupFiles {
  const char *limit, *usage, *inactive, *active;
};
constexpr GroupFiles version_2 = {"memory.max", "memory.current", "inactive_file", "active_file"};
constexpr GroupFiles version_1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file"};

// Every limit from the group at `path` up to the mount. A container may see another path than is mounted in it: then the
// mount itself is its group.
void add_groups(const fs::path& mount, const std::string& path, const GroupFiles& files, std::vector<MemoryLimit>& out) {
  fs::path group = mount / fs::path(path).relative_path();
  std::error_code ignored;
  if (!fs::is_directory(group, ignored)) group = mount;
  for (;; group = group.parent_path()) {
    const auto limit = read_number(group / files.limit), usage = read_number(group / files.usage);
    if (limit && usage && *limit < no_limit) {
      const auto table = read_table(group / "memory.stat");
      const double in_use = std::max(0.0, *usage - entry(table, files.inactive) - entry(table, files.active));
      const std::string name = group.lexically_relative(mount).string();
      out.push_back({.what = fmt::format("{} of the control group /{}", files.limit, name == "." ? "" : name),
                     .limit_bytes = *limit,
                     .free_bytes = std::max(0.0, *limit - in_use)});
    }
    if (group == mount || !group.has_relative_path()) return;
  }
}

// Lines such as "0::/user.slice" (version 2) and "5:cpu,memory:/docker/1" (version 1).
void add_control_groups(const fs::path& root, std::vector<MemoryLimit>& out) {
  std::ifstream in(root / "proc/self/cgroup");
  const fs::path mounts = root / "sys/fs/cgroup";
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",", path = line.substr(second + 1);
    if (controllers == ",,") add_groups(mounts, path, version_2, out);
    if (controllers.find(",memory,") != std::string::npos) add_groups(mounts / "memory", path, version_1, out);
  }
}

}  // namespace

const MemoryLimit* HostMemory::tightest(bool of_process) const {
  const MemoryLimit* out = nullptr;
  for (const MemoryLimit& l : limits)
    if (l.of_process == of_process && (!out || l.free_bytes < out->free_bytes)) out = &l;
  return out;
}

Ulimits ulimits_of_this_process() {
  const auto limit = [](auto resource) {
    rlimit value{};
    return getrlimit(resource, &value) == 0 && value.rlim_cur != RLIM_INFINITY ? static_cast<double>(value.rlim_cur) : -1.0;
  };
  return {.address_space = limit(RLIMIT_AS), .data = limit(RLIMIT_DATA)};
}

HostMemory measure_host_memory(const fs::path& root, const Ulimits& ulimits) {
  HostMemory out;
  const auto memory = read_table(root / "proc/meminfo"), process = read_table(root / "proc/self/status");
  out.total_bytes = entry(memory, "MemTotal");
  if (out.total_bytes > 0 && memory.contains("MemAvailable"))
    out.limits.push_back({.what = "MemAvailable of /proc/meminfo", .limit_bytes = out.total_bytes, .free_bytes = entry(memory, "MemAvailable")});
  add_control_groups(root, out.limits);
  for (const MemoryLimit& l : out.limits) out.total_bytes = std::min(out.total_bytes, l.limit_bytes);
  for (const auto& [what, limit, used] : {std::tuple{"ulimit -v", ulimits.address_space, "VmSize"}, {"ulimit -d", ulimits.data, "VmData"}})
    if (limit >= 0)
      out.limits.push_back({.what = what, .limit_bytes = limit, .free_bytes = std::max(0.0, limit - entry(process, used)), .of_process = true});
  return out;
}

}  // namespace trireme::platform
