#include "plan/all_to_all/bruck.h"

#include <fmt/format.h>

#include "base/errors.h"

namespace trireme::plan {

Pattern bruck(int size, Senders senders) {
  TRIREME_CHECK(size > 0);
  Pattern p{.name = "bruck", .size = size};
  for (int bit = 1; bit < size; bit *= 2) {
    Phase round{.name = fmt::format("distance {}", bit)};
    if (!p.phases.empty()) round.after = {static_cast<int>(p.phases.size()) - 1};
    for (int from = 0; from < size; ++from) {
      if (!senders.contains(from)) continue;
      Transfer t{from, (from + bit) % size, {}};
      // A block at distance D = d - s lies, before this round, with the member at s + (D mod bit).
      for (int low = 0; low < bit; ++low) {
        const int source = (from - low + size) % size;
        // Destinations source + low + bit, + 3 bit, ... : two progressions where they pass member size - 1.
        for (int distance = low + bit; distance < size;) {
          const int first = (source + distance) % size;
          const int in_turn = 1 + (size - 1 - distance) / (2 * bit), in_range = 1 + (size - 1 - first) / (2 * bit);
          const int count = in_turn < in_range ? in_turn : in_range;
          t.parcels.push_back({{.first = source}, {.first = first, .count = count, .stride = count > 1 ? 2 * bit : 1}});
          distance += count * 2 * bit;
        }
      }
      if (!t.parcels.empty()) round.transfers.push_back(std::move(t));
    }
    p.phases.push_back(std::move(round));
  }
  return p;
}

}  // namespace trireme::plan
