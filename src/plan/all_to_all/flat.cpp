#include "plan/all_to_all/flat.h"

#include "base/errors.h"

namespace trireme::plan {

Pattern flat(int size, Senders senders) {
  TRIREME_CHECK(size > 0);
  Phase phase{.name = "direct"};
  const int first = senders.count < 0 ? 0 : senders.first, last = senders.count < 0 ? size : first + senders.count;
  phase.transfers.reserve(static_cast<std::size_t>(last - first) * static_cast<std::size_t>(size));
  for (int step = 0; step < size; ++step)
    for (int from = first; from < last; ++from) {
      const int to = (from + step) % size;
      phase.transfers.push_back({from, to, {block(from, to)}});
    }
  return {.name = "flat", .size = size, .phases = {std::move(phase)}};
}

Pattern pairwise(int size, Senders senders) {
  Pattern p = flat(size, senders);
  p.name = "pairwise";
  p.phases.front().in_flight = 1;
  return p;
}

Pattern scattered(int size, int in_flight, Senders senders) {
  TRIREME_CHECK(in_flight > 0);
  Pattern p = flat(size, senders);
  p.name = "scattered";
  p.phases.front().in_flight = in_flight;
  return p;
}

}  // namespace trireme::plan
