// What ranks of one host measure together: how they slow one another down, how fast they talk.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "comm/launch_env.h"
#include "model/operators.h"
#include "nn/probe/compute_probe.h"
#include "platform/platform_spec.h"

namespace trireme::apps {

struct RankProbeOptions {
  comm::LaunchEnv env;
  nn::ProbeOptions compute;
  std::vector<int> threads = {1};             // of a rank, descending: what 1, 2, ... ranks get of the cores
  std::function<void()> alone;                // rank 0 does this first, while the others sleep
  model::ModelSpec model;                     // whose segments keep the ranks busy, in the shape that a rank meets
  model::SegmentShape shape;
};

// What a rank has of `cores` where 1, 2, ... `ranks` ranks share them: each number of threads once, descending.
std::vector<int> thread_counts(int cores, int ranks);

// Collective over the ranks. On rank 0 fills in host.busy (for each number of threads) and noise, links, collectives and the
// communication core share.
void probe_ranks(const RankProbeOptions& options, platform::PlatformSpec& platform);

}  // namespace trireme::apps
