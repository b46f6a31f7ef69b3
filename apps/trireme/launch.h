// `--ranks N`: this command line again, as N ranks on this host.
#pragma once
#include <chrono>

#include "trireme/context.h"

namespace trireme::apps {

// Blocks until all ranks have ended; returns the exit code for main. A rank knows itself by
// comm::parse_launch_env(context.environment).source == LaunchSource::trireme and must not launch again.
int launch_local(int num_ranks, const Context& context, std::chrono::milliseconds timeout);

}  // namespace trireme::apps
