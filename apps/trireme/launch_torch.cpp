#include "trireme/launch.h"

#include "comm/local_launch.h"

namespace trireme::apps {

int launch_local(int num_ranks, const Context& context, std::chrono::milliseconds timeout) {
  return comm::launch_local(
      {.ranks = num_ranks, .arguments = context.arguments, .environment = context.environment, .timeout = timeout});
}

}  // namespace trireme::apps
