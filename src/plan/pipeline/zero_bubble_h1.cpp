#include "plan/pipeline/zero_bubble_h1.h"

#include <algorithm>

#include "base/errors.h"
#include "plan/pipeline/weight_placement.h"

namespace trireme::plan {

Schedule zero_bubble_h1(const ScheduleOptions& o) {
  const int num_stages = o.num_stages, num_micro_batches = o.num_micro_batches;
  TRIREME_CHECK(num_stages > 0 && num_micro_batches > 0);
  Schedule s{.name = "zero_bubble_h1", .num_stages = num_stages, .num_micro_batches = num_micro_batches};
  for (int stage = 0; stage < num_stages; ++stage) {
    std::vector<Slot> row;
    const int warm_up = std::min(num_stages - 1 - stage, num_micro_batches);
    int forward = 0, weight = 0;
    while (forward < warm_up) row.push_back({SlotKind::forward, forward++});
    for (int mb = 0; mb < num_micro_batches; ++mb) {
      if (forward < num_micro_batches) row.push_back({SlotKind::forward, forward++});
      row.push_back({SlotKind::input_gradient, mb});
      if (mb >= stage) row.push_back({SlotKind::weight_gradient, weight++});
    }
    while (weight < num_micro_batches) row.push_back({SlotKind::weight_gradient, weight++});
    s.rows.push_back(std::move(row));
  }
  return with_weights_by_times(std::move(s), o.times, num_stages);
}

}  // namespace trireme::plan
