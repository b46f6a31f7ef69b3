#include "trireme/memory_check.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "report/text_table.h"

namespace trireme::apps {

using report::show_bytes;

TRIREME_DEFINE_JSON(MemoryNeed, peak_bytes, parts, copy_bytes, baseline_bytes, device, device_bytes)

MemoryNeed memory_need(const plan::RunSpec& run, const plan::Prediction& p, const platform::PlatformSpec& platform) {
  MemoryNeed out{.copy_bytes = p.checkpoint_copy_bytes, .baseline_bytes = p.baseline_bytes, .device = run.device.device};
  if (platform.device.kind != "cpu") out.device_bytes = platform.device.memory_bytes;
  for (std::size_t s = 0; s < p.memory.size(); ++s) {
    out.peak_bytes.push_back(p.memory[s].peak_bytes);
    std::vector<plan::MemoryPart> parts;
    if (s < p.constant.size()) parts = p.constant[s];
    // The curve's first part is the sum of these.
    for (std::size_t i = parts.empty() ? 0 : 1; i < p.memory[s].at_peak.size(); ++i) parts.push_back(p.memory[s].at_peak[i]);
    std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
    out.parts.push_back(std::move(parts));
  }
  return out;
}

std::string parts_text(const std::vector<plan::MemoryPart>& parts) {
  std::string out;
  for (const plan::MemoryPart& p : parts)
    if (p.bytes > 0) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", p.what, show_bytes(p.bytes));
  return out;
}

namespace {

struct Sum {
  double bytes = 0;
  std::map<std::string, double> parts;
  void add(const std::string& what, double more) { bytes += more, parts[what] += more; }
};

Sum sum_of(const MemoryNeed& need, const plan::Mesh& mesh, const HostRanks& ranks) {
  Sum sum;
  for (int rank = ranks.first; rank < ranks.first + ranks.count; ++rank) {
    const auto stage = static_cast<std::size_t>(mesh.pp_index(rank));
    if (need.device == "cpu") {
      for (const plan::MemoryPart& p : need.parts.at(stage)) sum.add(p.what, p.bytes);
    }
    if (!ranks.started) sum.add("the program itself", need.baseline_bytes);
    if (mesh.dp_index(rank) == 0 && stage < need.copy_bytes.size() && need.copy_bytes[stage] > 0)
      sum.add("copy for a checkpoint", need.copy_bytes[stage]);
  }
  return sum;
}

std::string text_of(const Sum& sum) {
  std::vector<plan::MemoryPart> parts;
  for (const auto& [what, bytes] : sum.parts) parts.push_back({what, bytes});
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return parts_text(parts);
}

}  // namespace

std::optional<std::string> memory_shortage(const MemoryNeed& need, const plan::Mesh& mesh, const HostRanks& ranks,
                                           const platform::HostMemory& host) {
  const int last = std::min(ranks.first + ranks.count, mesh.world()) - 1;
  const HostRanks here{ranks.first, last - ranks.first + 1, ranks.started};
  const bool one = here.count == 1;
  const std::string who = one ? fmt::format("rank {} needs", here.first) : fmt::format("ranks {} to {} need", here.first, last);
  if (need.device != "cpu" && need.device_bytes > 0)
    for (int rank = here.first; rank <= last; ++rank)
      if (const auto stage = static_cast<std::size_t>(mesh.pp_index(rank)); need.peak_bytes.at(stage) > need.device_bytes)
        return fmt::format("rank {} needs {} ({}); its device has {}", rank, show_bytes(need.peak_bytes[stage]),
                           parts_text(need.parts.at(stage)), show_bytes(need.device_bytes));
  const Sum all = sum_of(need, mesh, here);
  if (const auto* limit = host.tightest(/*of_process=*/false); limit && all.bytes > limit->free_bytes)
    return fmt::format("{} {}{} ({}); free on this host are {} of {} ({})", who, show_bytes(all.bytes), one ? "" : " together",
                       text_of(all), show_bytes(limit->free_bytes), show_bytes(limit->limit_bytes), limit->what);
  const auto* limit = host.tightest(/*of_process=*/true);
  if (!limit) return {};
  for (int rank = here.first; rank <= last; ++rank) {
    // The program itself is mapped by now, in this process as in each rank's.
    const Sum of_one = sum_of(need, mesh, {.first = rank, .count = 1, .started = true});
    if (of_one.bytes > limit->free_bytes)
      return fmt::format("rank {} needs {} ({}); free for a process are {} of {} ({})", rank, show_bytes(of_one.bytes), text_of(of_one),
                         show_bytes(limit->free_bytes), show_bytes(limit->limit_bytes), limit->what);
  }
  return {};
}

ConfigError memory_error(const plan::RunSpec& run, const std::string& shortage) {
  return ConfigError({.file = run.file, .key = "memory", .allowed = shortage + ". --force starts it all the same"});
}

}  // namespace trireme::apps
