#include "train/run_folder/run_info.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <fstream>
#include <optional>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/errors.h"
#include "base/regular_file.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::array telling_prefixes = {"RANK",   "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_", "TORCH",
                                         "PYTORCH", "SLURM_",    "OMP_",       "GOMP_",            "KMP_",       "MKL_",    "NCCL_",
                                         "RCCL_",  "GLOO_",      "CUDA_",      "HIP_",             "ROCR_",      "UCX_",    "FI_",
                                         "TRIREME", "LD_LIBRARY_PATH", "LD_PRELOAD"};
constexpr std::array secret_words = {"TOKEN", "SECRET", "PASSWORD", "KEY", "JWT", "CREDENTIAL"};

std::optional<ordered_json> read(const fs::path& folder) {
  const fs::path path = folder / run_info_file;
  std::ifstream in = open_regular(path);
  if (!in) return std::nullopt;
  ordered_json json = ordered_json::parse(in, nullptr, false);
  const bool good = json.is_object() && json.contains("run") && json["run"].is_string() && json.contains("sessions") &&
                    json["sessions"].is_array();
  if (!good)
    throw ConfigError({.file = path.string(), .allowed = "not what a run writes: restore it, or remove it (the run then gets "
                                                         "another id)"});
  return json;
}

ordered_json hosts_json(const std::vector<std::string>& rank_hosts) {
  ordered_json out = ordered_json::array();
  for (const std::string& host : rank_hosts) {
    if (out.empty() || out.back()["host"] != host) out.push_back({{"host", host}, {"ranks", 0}});
    out.back()["ranks"] = out.back()["ranks"].get<int>() + 1;
  }
  return out;
}

}  // namespace

std::string run_id_of(const fs::path& folder) {
  const auto json = read(folder);
  return json ? (*json)["run"].get<std::string>() : "";
}

void add_session(const fs::path& folder, const std::string& name, const RunIdentity& identity, const RunSession& session) {
  std::optional<ordered_json> json;
  if (session.from_step > 0) json = read(folder);
  if (!json) json = ordered_json{{"run", identity.run}, {"name", name}, {"sessions", ordered_json::array()}};
  std::error_code ignored;
  (*json)["sessions"].push_back({{"session", identity.session},
                                 {"started", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
                                 {"from_step", session.from_step},
                                 {"command", session.command},
                                 {"folder", fs::current_path(ignored).string()},
                                 {"version", session.version},
                                 {"torch", session.torch},
                                 {"hosts", hosts_json(session.rank_hosts)},
                                 {"environment", session.environment}});
  write_file_atomically(folder / run_info_file, json->dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

std::map<std::string, std::string> telling_variables(const std::map<std::string, std::string>& environment) {
  std::map<std::string, std::string> out;
  for (const auto& [name, value] : environment) {
    const auto starts = [&](const char* prefix) { return name.starts_with(prefix); };
    const auto holds = [&](const char* word) { return name.find(word) != std::string::npos; };
    if (std::ranges::any_of(telling_prefixes, starts) && std::ranges::none_of(secret_words, holds)) out[name] = value;
  }
  return out;
}

}  // namespace trireme::train
