#include "plan/pipeline/one_f_one_b.h"

#include <algorithm>

#include "base/errors.h"

namespace trireme::plan {

Schedule one_f_one_b(int num_stages, int num_micro_batches) {
  TRIREME_CHECK(num_stages > 0 && num_micro_batches > 0);
  Schedule s{.name = "1f1b", .num_stages = num_stages, .num_micro_batches = num_micro_batches};
  for (int stage = 0; stage < num_stages; ++stage) {
    std::vector<Slot> row;
    const int warm_up = std::min(num_stages - 1 - stage, num_micro_batches);
    int forward = 0, backward = 0;
    while (forward < warm_up) row.push_back({SlotKind::forward, forward++, 0});
    while (backward < num_micro_batches) {
      if (forward < num_micro_batches) row.push_back({SlotKind::forward, forward++, 0});
      row.push_back({SlotKind::backward, backward++, 0});
    }
    s.rows.push_back(std::move(row));
  }
  return s;
}

}  // namespace trireme::plan
