// The oracle of simulate_grid: an event simulation that looks everything up by name, and executes
// whichever stage can go on first.
#pragma once
#include <algorithm>
#include <map>
#include <tuple>

#include "sim/grid/simulate_grid.h"

namespace trireme::sim {

class SlowGrid {
 public:
  SlowGrid(const plan::Schedule& schedule, const GridCosts& costs) : s_(schedule), c_(costs) {
    for (int stage = 0; stage < s_.num_stages; ++stage)
      for (int chunk = 0; chunk < s_.num_chunks; ++chunk)
        if (const int piece = plan::piece_of(s_, stage, chunk); piece >= 0) stage_of_[piece] = stage;
    result_.busy_s.assign(s_.num_stages, 0);
    result_.finish_s.assign(s_.num_stages, 0);
    at_.assign(s_.num_stages, 0);
    spans_.resize(s_.num_stages);
    for (int stage = 0; stage < s_.num_stages; ++stage) spans_[stage].resize(s_.rows[stage].size());
  }

  // False: it got stuck.
  bool run() {
    for (;;) {
      int soonest = -1;
      double start = 0;
      bool left = false;
      for (int stage = 0; stage < s_.num_stages; ++stage) {
        skip_no_ops(stage);
        if (at_[stage] == s_.rows[stage].size()) continue;
        left = true;
        double when = result_.finish_s[stage];
        if (can_start(stage, when) && (soonest < 0 || when < start)) {
          soonest = stage;
          start = when;
        }
      }
      if (soonest < 0) {
        for (const auto& of_stage : spans_) result_.spans.insert(result_.spans.end(), of_stage.begin(), of_stage.end());
        for (double f : result_.finish_s) result_.makespan_s = std::max(result_.makespan_s, f);
        return !left;
      }
      execute(soonest, start);
    }
  }

  const GridResult& result() const { return result_; }

 private:
  using Name = std::tuple<char, int, int>;  // 'F' an output, 'G' its gradient; of a piece and micro-batch

  static bool is_gradient(const plan::Slot& x) {
    return x.kind == plan::SlotKind::backward || x.kind == plan::SlotKind::input_gradient;
  }

  void skip_no_ops(int stage) {
    const auto& row = s_.rows[stage];
    while (at_[stage] < row.size() && row[at_[stage]].kind == plan::SlotKind::no_op) ++at_[stage];
  }

  std::vector<plan::Slot> unit(int stage) const {
    const auto& row = s_.rows[stage];
    std::vector<plan::Slot> out{row[at_[stage]]};
    if (out[0].joined) out.push_back(row[at_[stage] + 1]);
    return out;
  }

  bool can_start(int stage, double& when) const {
    for (const plan::Slot& x : unit(stage)) {
      const int piece = plan::piece_of(s_, stage, x.chunk);
      Name need{'-', 0, 0};
      if (x.kind == plan::SlotKind::forward && piece > 0) need = {'F', piece - 1, x.mb};
      if (is_gradient(x)) need = piece + 1 < plan::num_pieces(s_) ? Name{'G', piece + 1, x.mb} : Name{'F', piece, x.mb};
      if (std::get<0>(need) == '-') continue;
      const auto found = arrival_.find({need, stage});
      if (found == arrival_.end()) return false;
      when = std::max(when, found->second);
    }
    return true;
  }

  double price(const std::vector<double>& values, int cell, int mb, int cells) const {
    if (values.empty()) return 0;
    return static_cast<int>(values.size()) == cells ? values[cell] : values[cell * s_.num_micro_batches + mb];
  }

  double seconds(int stage, const plan::Slot& x) const {
    const auto& values = x.kind == plan::SlotKind::forward          ? c_.forward_s
                         : x.kind == plan::SlotKind::backward       ? c_.backward_s
                         : x.kind == plan::SlotKind::input_gradient ? c_.input_gradient_s
                                                                    : c_.weight_gradient_s;
    return price(values, cell(stage, x), x.mb, s_.num_stages * s_.num_chunks);
  }

  int cell(int stage, const plan::Slot& x) const { return stage * s_.num_chunks + x.chunk; }

  void execute(int stage, double start) {
    const auto slots = unit(stage);
    double takes = 0;
    if (slots.size() == 1) {
      takes = seconds(stage, slots[0]);
    } else {
      const bool swapped = slots[0].kind != plan::SlotKind::forward;
      const plan::Slot &f = slots[swapped ? 1 : 0], &b = slots[swapped ? 0 : 1];
      const auto& prices = b.kind == plan::SlotKind::backward ? c_.pair_s : c_.pair_input_s;
      takes = prices.empty() ? seconds(stage, f) + seconds(stage, b)
                             : price(prices, cell(stage, f) * s_.num_chunks + b.chunk, f.mb,
                                     s_.num_stages * s_.num_chunks * s_.num_chunks);
    }
    const double end = start + takes;
    double until = end;
    for (const plan::Slot& x : slots) {
      spans_[stage][at_[stage]++] = {start, end};
      const int piece = plan::piece_of(s_, stage, x.chunk);
      if (x.kind == plan::SlotKind::weight_gradient) continue;
      const bool forward = x.kind == plan::SlotKind::forward;
      const Name made{forward ? 'F' : 'G', piece, x.mb};
      arrival_[{made, stage}] = end;
      const auto target = stage_of_.find(forward ? piece + 1 : piece - 1);
      if (target == stage_of_.end() || target->second == stage) continue;
      const double send =
          price(forward ? c_.forward_send_s : c_.backward_send_s, cell(stage, x), x.mb, s_.num_stages * s_.num_chunks);
      double leaves = end;
      if (c_.sends == SendMode::lane) {
        double& lane = lane_[{stage, forward}];
        leaves = std::max(lane, end);
        lane = leaves + send;
      }
      if (c_.sends == SendMode::blocking) until = std::max(until, end + send);
      arrival_[{made, target->second}] = leaves + send;
    }
    result_.busy_s[stage] += takes;
    result_.finish_s[stage] = until;
  }

  const plan::Schedule& s_;
  const GridCosts& c_;
  std::map<int, int> stage_of_;                              // of a piece
  std::map<std::pair<Name, int>, double> arrival_;           // of what, on which stage
  std::map<std::pair<int, bool>, double> lane_;              // stage, forward: until when it sends
  std::vector<std::size_t> at_;
  std::vector<std::vector<plan::Span>> spans_;
  GridResult result_;
};

}  // namespace trireme::sim
