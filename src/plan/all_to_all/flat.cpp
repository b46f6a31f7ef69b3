#include "plan/all_to_all/flat.h"

#include "base/errors.h"

namespace trireme::plan {

Pattern flat(int size) {
  TRIREME_CHECK(size > 0);
  Phase phase{.name = "direct"};
  for (int from = 0; from < size; ++from)
    for (int to = 0; to < size; ++to) phase.transfers.push_back({from, to, {{from, to}}});
  return {.name = "flat", .size = size, .phases = {std::move(phase)}};
}

}  // namespace trireme::plan
