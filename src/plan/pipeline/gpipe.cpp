#include "plan/pipeline/gpipe.h"

#include <algorithm>

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

Schedule forward_only(int num_stages, int num_micro_batches, int num_chunks, std::vector<std::vector<int>> pieces) {
  TRIREME_CHECK(num_stages > 0 && num_micro_batches > 0 && num_chunks > 0);
  Schedule s{.name = "forward_only", .num_stages = num_stages, .num_micro_batches = num_micro_batches,
             .num_chunks = num_chunks, .forward_only = true, .pieces = std::move(pieces)};
  std::vector<Slot> row;
  for (int first = 0; first < num_micro_batches; first += num_stages)
    for (int chunk = 0; chunk < num_chunks; ++chunk)
      for (int mb = first; mb < std::min(num_micro_batches, first + num_stages); ++mb)
        row.push_back({SlotKind::forward, mb, chunk});
  s.rows.assign(num_stages, row);
  return s;
}

}  // namespace trireme::plan
