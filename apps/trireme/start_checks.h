// What is looked at before the first step and needs the machine: devices, memory.
#pragma once
#include "comm/group.h"
#include "trireme/memory_check.h"
#include "trireme/rank_process.h"

namespace trireme::apps {

// ConfigError (device.device) where this build or host has no such device, or fewer than it has ranks.
void check_device(const plan::RunSpec& run, int local_ranks);

// Of a run whose ranks this process starts, all here: plans it as its first rank will, and throws memory_error() where it
// does not fit; with options.force it is a warning.
void check_memory(const RankOptions& options, int num_ranks);

// A rank of a run that does not fit on some host: `here` on the rank that says why.
struct DoesNotFit {
  std::optional<ConfigError> here;
};

// The same among ranks that a launcher has started, on many hosts: the first rank of each host looks for all of it.
// Collective over the world. Throws DoesNotFit on every rank where any host has too little.
void agree_that_it_fits(const RankOptions& options, const MemoryNeed& need, const comm::LaunchEnv& env,
                        comm::Communicator& communicator);

}  // namespace trireme::apps
