#include "plan/pipeline/merged_1f1b.h"

#include "plan/pipeline/interleaved_1f1b.h"

namespace trireme::plan {

Schedule merged_1f1b(const ScheduleOptions& o) {
  std::vector<Slot> forwards;
  if (o.num_chunks == 1) {
    for (int mb = 0; mb < o.num_micro_batches; ++mb) forwards.push_back({SlotKind::forward, mb, 0});
  } else {
    forwards = interleaved_forwards(o);
  }
  const int group = o.micro_batch_group > 0 ? o.micro_batch_group : o.num_stages;
  Schedule s{.name = "merged_1f1b",
             .num_stages = o.num_stages,
             .num_micro_batches = o.num_micro_batches,
             .num_chunks = o.num_chunks};
  fill_interleaved_rows(s, forwards, (o.num_chunks - 1) * group + 1, /*joined=*/true);
  return s;
}

}  // namespace trireme::plan
