// Measures what messages cost while every rank talks: exchanges with some of the members of the node, and with
// counterparts on some of the other nodes, by number of messages and by size; and a line through them.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "comm/group.h"
#include "plan/all_to_all/node_shape.h"
#include "platform/platform_spec.h"

namespace trireme::comm {

struct SharedSample {
  std::string level;         // "host" or "network"
  int messages = 0;          // that a member sends (and receives)
  double bytes = 0;          // of a message
  int in_flight = 0;         // at one time; 0: all
  double busiest_bytes = 0;  // through a member's port (host), a node's links (network), each way
  double median_s = 0, max_s = 0;
  double fitted_s = 0;
};

struct SharedLinks {
  std::vector<platform::SharedLink> links;  // of the levels that the shape has
  std::vector<SharedSample> samples;
};

struct SharedLinkOptions {
  std::vector<double> bytes{64, 1024, 8192, 65536};
  int samples = 5;  // and a warm-up
  double batch_s = 0.1;  // some exchanges: members leave a barrier milliseconds apart
  double copied_bytes = 4 << 20;  // of each member: more than its share of the caches
  double longest_s = 2;  // sizes whose exchange would take longer are left out
  std::function<void(const std::string&)> progress;
};

// Collective; the same on every member.
SharedLinks probe_shared_links(Group& group, const plan::NodeShape& shape, const SharedLinkOptions& options = {});

// What a bound on the messages under way costs, into wake_s and turn_s of the link: from the smallest messages sent few
// at a time, which take latency + messages x (message time + wake) + (messages / in_flight - 1) x turn. A turn is a
// partner waited for while all others go on: the latency, which is of a whole exchange, comes once. All of it is turns
// where there is one kind of burst; without any turn_s is -1. Sets fitted_s.
void fit_turns(std::vector<SharedSample*>& bounded, platform::SharedLink& link);

// One level as sim's pattern_time takes it: latency + messages x message time and bytes / bandwidth, blended. Latency and
// message time come from the smallest messages (least squares of the relative error); then, each with the least sum of
// relative errors, the bandwidth and the bucket where a member has one message under way, and the bandwidth and the blend
// where it has more. Sets fitted_s. With one number of messages only, their time is all latency.
platform::SharedLink fit_shared_link(std::vector<SharedSample*>& samples);

}  // namespace trireme::comm
