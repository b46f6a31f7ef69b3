// How ranks that share a host's cores slow one another down, by what the platform's tables say.
#pragma once
#include <vector>

#include "platform/platform_spec.h"

namespace trireme::sim {

// Ranks of a run that share one machine's cores: those of a host, or of all hosts that are parts of the machine.
int ranks_of_machine(const platform::Host& host, int world);

// The table of the nearest number of threads; null where there is none. Kept by the platform.
const platform::BusyTable* busy_table(const platform::Host& host, int threads);

// The slow-down of a rank while `busy` ranks of `threads` threads compute on `cores` cores; table may be null.
double slow_down(const platform::BusyTable* table, double busy, int threads, int cores);
// Likewise of the time that a waiting thread takes to run on; 0 without a table.
double hand_over_s(const platform::BusyTable* table, double busy);

// How far factors with a mean of 1 lie from it, in the mean; 0 for none.
double distance_from_mean(const std::vector<double>& factors);
// How much farther from 1 the noise's factors lie with `ranks` ranks on the host than as they are given; 1 where the
// table does not say.
double noise_stretch(const platform::BusyTable& table, const platform::NoiseTable& noise, int ranks);

}  // namespace trireme::sim
