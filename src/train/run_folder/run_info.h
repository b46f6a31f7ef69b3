// run_info.json in a run's folder: the run's id, and each start of the program with what it was started by and where.
//
//   {"run": "3f2a00c41b77", "name": "quickstart", "sessions": [{"session", "started", "from_step", "command", "folder",
//    "version", "torch", "hosts": [{"host", "ranks"}], "environment": {...}}]}
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "train/run_folder/run_identity.h"

namespace trireme::train {

inline constexpr const char* run_info_file = "run_info.json";

struct RunSession {
  std::int64_t from_step = 0;          // of the checkpoint that it goes on from; 0: a fresh start
  std::vector<std::string> command;
  std::string version, torch;
  std::vector<std::string> rank_hosts;  // by rank
  std::map<std::string, std::string> environment;
};

// The id of the run in this folder; empty where there is no file. ConfigError for one that is not what a run writes.
std::string run_id_of(const std::filesystem::path& folder);

// Adds a session; where the run starts afresh (from_step 0) the file starts afresh.
void add_session(const std::filesystem::path& folder, const std::string& name, const RunIdentity& identity, const RunSession& session);

// What a run's behaviour can depend on: variables of launchers, threads, libraries and devices. Not those that look like
// secrets.
std::map<std::string, std::string> telling_variables(const std::map<std::string, std::string>& environment);

}  // namespace trireme::train
