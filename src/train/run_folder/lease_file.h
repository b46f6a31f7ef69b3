// run.lock in a run's folder: who writes into it. A JSON object, padded to a fixed size so that it can be rewritten in place:
//   {"run", "session", "host", "pid", "started", "place", "since", "beat"}
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "train/run_folder/run_identity.h"

namespace trireme::train {

inline constexpr const char* lease_file = "run.lock";

struct LeaseHolder {
  RunIdentity identity;
  std::string host;
  std::int64_t pid = 0;
  std::string started;  // of the process, in the kernel's ticks: a number that is used again is another process
  std::string place;    // boot and name space of processes: a pid means something only there
  std::string since;    // UTC
  std::int64_t beat = 0;
};

LeaseHolder this_process(const RunIdentity& identity);
// Whether the holder is a process of this machine that is gone; nothing where it can't be told from here.
std::optional<bool> is_dead(const LeaseHolder& holder);
// "run 3f2a00c41b77 on node7, process 4711, since 2026-12-01 10:00:00 UTC".
std::string describe(const LeaseHolder& holder);

std::string lease_text(const LeaseHolder& holder);
// Nothing for a text that is no lease (half of one, another program's).
std::optional<LeaseHolder> parse_lease(const std::string& text);

}  // namespace trireme::train
