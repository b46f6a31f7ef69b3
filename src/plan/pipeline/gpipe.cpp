#include "plan/pipeline/gpipe.h"

#include <algorithm>
#include <map>

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
  for (int stage = 0; stage < num_stages; ++stage) {
    // In the model's order, whatever the chunks are called.
    std::map<int, int> chunk_of;
    for (int chunk = 0; chunk < num_chunks; ++chunk)
      if (const int piece = piece_of(s, stage, chunk); piece >= 0) chunk_of[piece] = chunk;
    auto& row = s.rows.emplace_back();
    for (int first = 0; first < num_micro_batches; first += num_stages)
      for (const auto& [piece, chunk] : chunk_of)
        for (int mb = first; mb < std::min(num_micro_batches, first + num_stages); ++mb)
          row.push_back({SlotKind::forward, mb, chunk});
  }
  return s;
}

}  // namespace trireme::plan
