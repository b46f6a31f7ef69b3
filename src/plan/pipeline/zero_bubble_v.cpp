#include "plan/pipeline/zero_bubble_v.h"

#include <algorithm>
#include <array>

#include "base/errors.h"
#include "plan/pipeline/weight_placement.h"

namespace trireme::plan {

namespace {

std::vector<Slot> row_of(int stage, int p, int m) {
  std::vector<Slot> row;
  row.reserve(6 * static_cast<std::size_t>(m));
  std::array<int, 2> forwards{}, gradients{}, weights{};
  const auto forward = [&](int chunk) { row.push_back({SlotKind::forward, forwards[chunk]++, chunk}); };
  const auto gradient = [&](int chunk) { row.push_back({SlotKind::input_gradient, gradients[chunk]++, chunk}); };
  const auto weight = [&](int chunk) { row.push_back({SlotKind::weight_gradient, weights[chunk]++, chunk}); };
  for (int i = 0; i < 2 * (p - stage) - 1; ++i) forward(0);
  for (int i = 0; i < stage; ++i) {
    forward(1);
    forward(0);
  }
  for (int i = 0; i < p - stage; ++i) {
    forward(1);
    gradient(1);
    weight(1);
  }
  while (forwards[1] < m) {
    if (forwards[0] < m) forward(0);
    gradient(0);
    weight(0);
    forward(1);
    gradient(1);
    weight(1);
  }
  for (int i = 0; i < stage; ++i) {
    gradient(0);
    gradient(1);
  }
  for (int i = 0; i < p - stage; ++i) {
    gradient(0);
    weight(0);
  }
  while (weights[1] < m) weight(1);
  while (weights[0] < m) weight(0);
  return row;
}

}  // namespace

Schedule zero_bubble_v(const ScheduleOptions& o) {
  const int p = o.num_stages, m = std::max(o.num_micro_batches, 2 * p - 1);
  TRIREME_CHECK(p > 0 && o.num_micro_batches > 0);
  Schedule s{.name = "zero_bubble_v", .num_stages = p, .num_micro_batches = m, .num_chunks = 2, .pieces = v_shape(p)};
  for (int stage = 0; stage < p; ++stage) s.rows.push_back(row_of(stage, p, m));
  std::vector<SlotTimes> times = o.times;
  if (m > o.num_micro_batches) {
    s = first_micro_batches(s, o.num_micro_batches);
    if (times.empty()) times = {SlotTimes{}};  // the surplus leaves gaps, also with equal times
  }
  return with_weights_by_times(std::move(s), times, 2 * p);
}

}  // namespace trireme::plan
