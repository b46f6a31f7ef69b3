// What memory this host has, and what of it a process may still take: MemAvailable, the limits of the process's control
// groups and its resource limits (ulimit).
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace trireme::platform {

struct MemoryLimit {
  std::string what;         // "MemAvailable of /proc/meminfo", "memory.max of the control group /user.slice", "ulimit -v"
  double limit_bytes = 0;   // the whole: MemTotal, the limit's value
  double free_bytes = 0;    // of it: the limit less what is in use that can't be dropped
  bool of_process = false;  // holds for one process; else for all of the host's (or group's) together
  bool operator==(const MemoryLimit&) const = default;
};

struct HostMemory {
  double total_bytes = 0;           // of the host, or of the control group where that is less; 0: can't be told
  std::vector<MemoryLimit> limits;  // those that could be read; a limit that is not set is none

  // The one with the least free of either kind; null where there is none.
  const MemoryLimit* tightest(bool of_process) const;
};

struct Ulimits {
  double address_space = -1, data = -1;  // RLIMIT_AS and RLIMIT_DATA in bytes; below 0: unlimited
};
Ulimits ulimits_of_this_process();

// `root` holds proc/ and sys/ ("/" but in tests). Control groups of version 2 and of version 1 are followed from the
// process's own up to the root: each may have a limit. Cached files count as free, since the system drops them first;
// swap counts as nothing.
HostMemory measure_host_memory(const std::filesystem::path& root = "/", const Ulimits& ulimits = ulimits_of_this_process());

}  // namespace trireme::platform
