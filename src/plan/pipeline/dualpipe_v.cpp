#include "plan/pipeline/dualpipe_v.h"

#include <algorithm>
#include <array>

#include "base/errors.h"

namespace trireme::plan {

namespace {

// One stage's row, slot by slot; counts micro-batches of each chunk and remembers the weight gradients that are due.
class Row {
 public:
  void forward(int chunk, bool joined = false) {
    row_.push_back({SlotKind::forward, forwards_[chunk]++, chunk, joined});
  }
  void backward(int chunk, bool split = false) {
    const Slot slot{split ? SlotKind::input_gradient : SlotKind::backward, backwards_[chunk]++, chunk};
    row_.push_back(slot);
    if (split) due_.push_back({SlotKind::weight_gradient, slot.mb, chunk});
  }
  void joined(int forward_chunk, int backward_chunk) {
    forward(forward_chunk, true);
    backward(backward_chunk);
  }
  void weight() { row_.push_back(due_.at(next_due_++)); }
  bool weights_due() const { return next_due_ < due_.size(); }
  std::vector<Slot> take() { return std::move(row_); }

 private:
  std::vector<Slot> row_, due_;
  std::size_t next_due_ = 0;
  std::array<int, 2> forwards_{}, backwards_{};
};

std::vector<Slot> row_of(int stage, int p, int m) {
  const bool last = stage == p - 1;
  const int behind = p - 1 - stage;
  Row row;
  for (int i = 0; i < 2 * behind; ++i) row.forward(0);
  for (int i = 0; i <= stage; ++i) {
    row.forward(0);
    row.forward(1);
  }
  for (int i = 0; i < behind; ++i) {
    row.backward(1, true);
    row.weight();
    row.forward(1);
  }
  for (int i = 0; i < m - 2 * p + stage + 1; ++i) {
    if (i == 0 && last) {
      row.forward(0);
      row.backward(1);
    } else {
      row.joined(0, 1);
    }
    row.joined(1, 0);
  }
  for (int i = 0; i < behind; ++i) {
    row.backward(1);
    row.joined(1, 0);
  }
  // The switch to split backwards falls between the two chunks of a round on even stages, before both on odd ones.
  const int half = (stage + 1) / 2;
  for (int i = 0; i <= stage; ++i) {
    row.backward(1, i > half || (i == half && stage % 2 == 1));
    row.backward(0, i >= half);
  }
  for (int i = 0; i < behind; ++i) {
    row.weight();
    row.backward(0, true);
  }
  while (row.weights_due()) row.weight();
  return row.take();
}

}  // namespace

Schedule dualpipe_v(int num_stages, int num_micro_batches) {
  TRIREME_CHECK(num_stages > 0 && num_micro_batches > 0);
  const int needed = std::max(num_micro_batches, 2 * num_stages);
  Schedule s{.name = "dualpipe_v",
             .num_stages = num_stages,
             .num_micro_batches = needed,
             .num_chunks = 2,
             .pieces = v_shape(num_stages)};
  for (int stage = 0; stage < num_stages; ++stage) s.rows.push_back(row_of(stage, num_stages, needed));
  return first_micro_batches(s, num_micro_batches);
}

}  // namespace trireme::plan
