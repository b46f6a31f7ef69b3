#include "plan/pipeline/gpipe.h"

#include "base/errors.h"

namespace trireme::plan {

Schedule gpipe(int num_stages, int num_micro_batches) {
  TRIREME_CHECK(num_stages > 0 && num_micro_batches > 0);
  Schedule s{.name = "gpipe", .num_stages = num_stages, .num_micro_batches = num_micro_batches};
  std::vector<Slot> row;
  for (int mb = 0; mb < num_micro_batches; ++mb) row.push_back({SlotKind::forward, mb, 0});
  for (int mb = 0; mb < num_micro_batches; ++mb) row.push_back({SlotKind::backward, mb, 0});
  s.rows.assign(num_stages, row);
  return s;
}

Schedule forward_only(int num_stages, int num_micro_batches) {
  TRIREME_CHECK(num_stages > 0 && num_micro_batches > 0);
  Schedule s{.name = "forward_only", .num_stages = num_stages, .num_micro_batches = num_micro_batches,
             .forward_only = true};
  std::vector<Slot> row;
  for (int mb = 0; mb < num_micro_batches; ++mb) row.push_back({SlotKind::forward, mb, 0});
  s.rows.assign(num_stages, row);
  return s;
}

}  // namespace trireme::plan
