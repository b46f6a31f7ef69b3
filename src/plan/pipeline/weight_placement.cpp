#include "plan/pipeline/weight_placement.h"

#include <algorithm>
#include <limits>

#include "base/errors.h"

namespace trireme::plan {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

class Placement {
 public:
  Placement(const Schedule& s, const std::vector<SlotTimes>& times, int max_in_flight, const WeightRule& rule,
            bool rows)
      : s_(s),
        m_(s.num_micro_batches),
        times_(times),
        limit_(max_in_flight),
        rule_(rule),
        keep_(rows),
        pieces_(num_pieces(s)),
        forward_(static_cast<std::size_t>(pieces_) * m_, never),
        gradient_(forward_.size(), never),
        stages_(s.num_stages) {
    stage_of_.resize(pieces_);
    for (int stage = 0; stage < s.num_stages; ++stage) {
      Stage& x = stages_[stage];
      for (int chunk = 0; chunk < s.num_chunks; ++chunk) {
        x.piece.push_back(piece_of(s, stage, chunk));
        if (x.piece.back() >= 0) stage_of_[x.piece.back()] = stage;
      }
      x.due.reserve(s.rows[stage].size() / 3);
      if (keep_) x.row.reserve(s.rows[stage].size());
    }
    for (int mb = 0; mb < m_; ++mb) forward_[mb] = 0;
  }

  PlacedWeights run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int stage = 0; stage < s_.num_stages; ++stage)
        while (step(stage)) moved = true;
    }
    PlacedWeights out;
    for (int stage = 0; stage < s_.num_stages; ++stage) {
      Stage& x = stages_[stage];
      TRIREME_CHECK(x.at == s_.rows[stage].size(), "stage {} can't go on at slot {}", stage, x.at);
      while (x.next_due < x.due.size()) take_weight(stage);
      out.makespan_s = std::max(out.makespan_s, x.free);
      if (keep_) out.rows.push_back(std::move(x.row));
    }
    return out;
  }

 private:
  struct Stage {
    std::vector<int> piece;  // by chunk
    std::size_t at = 0;      // in the row that is given
    double free = 0;         // when its last slot ends
    int in_flight = 0;
    std::vector<Slot> due;  // weight gradients, in the order of their input gradients
    std::size_t next_due = 0;
    std::vector<Slot> row;
  };

  const SlotTimes& times(int stage, int chunk) const { return times_[stage * s_.num_chunks + chunk]; }

  void take_weight(int stage) {
    Stage& x = stages_[stage];
    const Slot slot = x.due[x.next_due++];
    x.free += times(stage, slot.chunk).weight_gradient_s;
    --x.in_flight;
    if (keep_) x.row.push_back(slot);
  }

  bool weight_first(int stage, bool forward, double ready) const {
    const Stage& x = stages_[stage];
    const int pending = static_cast<int>(x.due.size() - x.next_due);
    if (pending == 0) return false;
    if ((forward && x.in_flight >= limit_) || (rule_.pending > 0 && pending > rule_.pending)) return true;
    const double weight_s = times(stage, x.due[x.next_due].chunk).weight_gradient_s;
    return x.free < ready && x.free + rule_.least_gap * weight_s <= ready;
  }

  // The next slot of the stage's row with the weight gradients before it; false where its input is not known yet.
  bool step(int stage) {
    Stage& x = stages_[stage];
    const auto& row = s_.rows[stage];
    for (; x.at < row.size() && row[x.at].kind == SlotKind::weight_gradient; ++x.at)
      if (rule_.as_given) take_weight(stage);
    if (x.at == row.size()) return false;
    const Slot& slot = row[x.at];
    const bool forward = slot.kind == SlotKind::forward;
    TRIREME_CHECK(!slot.joined && (forward || slot.kind == SlotKind::input_gradient), "{} in a split schedule",
                  to_text(slot));
    const int piece = x.piece[slot.chunk];
    const std::size_t cell = static_cast<std::size_t>(piece) * m_ + slot.mb;
    const double ready = (forward ? forward_ : gradient_)[cell];
    if (ready == never) return false;
    while (!rule_.as_given && weight_first(stage, forward, ready)) take_weight(stage);
    const SlotTimes& t = times(stage, slot.chunk);
    x.free = std::max(x.free, ready) + (forward ? t.forward_s : t.input_gradient_s);
    const int next = forward ? piece + 1 : piece - 1;
    const auto arrive = [&](std::size_t to) { return x.free + (stage_of_[to] == stage ? 0 : t.send_s); };
    if (forward) {
      ++x.in_flight;
      if (next < pieces_)
        forward_[cell + m_] = arrive(next);
      else
        gradient_[cell] = x.free;
    } else {
      x.due.push_back({SlotKind::weight_gradient, slot.mb, slot.chunk});
      if (next >= 0) gradient_[cell - m_] = arrive(next);
    }
    if (keep_) x.row.push_back(slot);
    ++x.at;
    return true;
  }

  const Schedule& s_;
  const int m_;
  const std::vector<SlotTimes>& times_;
  const int limit_;
  const WeightRule rule_;
  const bool keep_;
  const int pieces_;
  std::vector<int> stage_of_;               // by piece
  std::vector<double> forward_, gradient_;  // when the input is there, by [piece][micro-batch]
  std::vector<Stage> stages_;
};

}  // namespace

PlacedWeights place_weights(const Schedule& split, const std::vector<SlotTimes>& times, int max_in_flight,
                            const WeightRule& rule, bool rows) {
  TRIREME_CHECK(static_cast<int>(times.size()) == split.num_stages * split.num_chunks, "times of {} chunks",
                times.size());
  return Placement(split, times, max_in_flight, rule, rows).run();
}

Schedule with_weights_by_times(Schedule split, const std::vector<SlotTimes>& given, int max_in_flight) {
  if (given.empty()) return split;
  const int p = split.num_stages;
  std::vector<SlotTimes> times = given;
  if (times.size() == 1) times.resize(static_cast<std::size_t>(p) * split.num_chunks, given[0]);
  const int few = 4 * p * split.num_chunks;
  const bool many = split.num_micro_batches > 2 * few;
  const Schedule start = many ? first_micro_batches(split, few) : Schedule{};
  const Schedule& judged = many ? start : split;
  WeightRule best{.as_given = true};
  double shortest = place_weights(judged, times, max_in_flight, best, /*rows=*/false).makespan_s;
  for (const double least_gap : {0.0, 0.25, 0.5, 0.75, 1.0})
    for (const int pending : {0, p / 2, p, p + p / 2}) {
      const WeightRule rule{least_gap, pending};
      const double makespan_s = place_weights(judged, times, max_in_flight, rule, /*rows=*/false).makespan_s;
      if (makespan_s < shortest * (1 - 1e-12)) {
        shortest = makespan_s;
        best = rule;
      }
    }
  split.rows = place_weights(split, times, max_in_flight, best, /*rows=*/true).rows;
  return split;
}

}  // namespace trireme::plan
