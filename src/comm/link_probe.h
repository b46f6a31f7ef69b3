// Measures what messages between ranks cost, through the very operations that a run uses (group.h), on a group that
// does nothing else meanwhile.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "comm/group.h"
#include "platform/platform_spec.h"

namespace trireme::comm {

enum class LinkOperation { message, all_reduce, all_to_all };
TRIREME_JSON(LinkOperation)

struct LinkPoint {
  double bytes = 0;  // of a message; of a rank's tensor (all_reduce); of all that a rank sends, its own part included
                     // (all_to_all, rounded up to whole floats a member)
  double median_s = 0;  // a message: half a round trip; a collective: until its last member is done
  double p99_s = 0;     // nearest rank: the largest sample where there are fewer than 100
  double max_s = 0;
  int samples = 0;
  bool operator==(const LinkPoint&) const = default;
};
TRIREME_JSON(LinkPoint)

struct LinkCurve {
  LinkOperation operation = LinkOperation::message;
  std::vector<int> members;       // global ranks: two for messages
  std::vector<LinkPoint> points;  // ascending bytes
  bool operator==(const LinkCurve&) const = default;
};
TRIREME_JSON(LinkCurve)

struct LinkProbeOptions {
  std::vector<double> bytes{4, 1024, 16384, 131072, 1048576, 8388608};  // multiples of 4
  // For all points together. Each has at least 3 samples and one warm-up, so very large ones may take longer.
  double budget_s = 10;
  int max_samples = 300;  // a point
  // Before each sample of a collective every member streams through memory for so long, as a step's compute does:
  // communication then meets sleeping threads and cold caches. 0: messages follow one another.
  double compute_s = 0;
  // Pairs of group ranks for messages. Empty: all pairs of up to 4 members, else member 0 with every other (at most
  // 15).
  std::vector<std::pair<int, int>> pairs;
};

// Collective; the result is the same on every member. One member: no curves. Pairs are measured one after another.
std::vector<LinkCurve> probe_links(Group& group, const LinkProbeOptions& options = {});

// What a platform file says of messages between two ranks: the first point is the latency, the others the bandwidth.
platform::Link link_of(std::string level, const std::vector<LinkPoint>& messages);

// Median, p99 and maximum of samples in seconds.
LinkPoint summarise(double bytes, std::vector<double> samples_s);

}  // namespace trireme::comm
