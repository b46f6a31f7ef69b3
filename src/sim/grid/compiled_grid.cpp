#include "sim/grid/compiled_grid.h"

#include <fmt/format.h>

#include "base/errors.h"

namespace trireme::sim {

using plan::Schedule;
using plan::Slot;
using plan::SlotKind;

namespace {

// Progress of a micro-batch through a cell.
enum Done : std::uint8_t { forward_done = 1, gradient_done = 2, weights_done = 4 };

[[noreturn]] void refuse(const Schedule& s) {
  const auto found = plan::problems(s);
  TRIREME_CHECK(!found.empty(), "a schedule without problems that can't be compiled");
  throw ConfigError({.key = "schedule", .value = s.name, .allowed = found.front()});
}

class Compiler {
 public:
  explicit Compiler(const Schedule& s) : s_(s), m_(s.num_micro_batches) {}

  CompiledGrid run() {
    if (s_.num_stages < 1 || m_ < 1 || s_.num_chunks < 1 || static_cast<int>(s_.rows.size()) != s_.num_stages)
      refuse(s_);
    find_neighbours();
    out_.num_stages = s_.num_stages;
    out_.num_chunks = s_.num_chunks;
    out_.num_micro_batches = m_;
    const std::size_t cells = out_.num_cells();
    done_.assign(cells * m_, 0);
    forward_message_.assign(cells * m_, 0);
    gradient_message_.assign(cells * m_, 0);
    out_.row_begin.assign(1, 0);
    for (const auto& row : s_.rows) out_.row_begin.push_back(out_.row_begin.back() + static_cast<int>(row.size()));
    out_.units.reserve(out_.row_begin.back());
    execute();
    check_complete();
    return std::move(out_);
  }

 private:
  void find_neighbours() {
    const int cells = s_.num_stages * s_.num_chunks;
    std::vector<int> cell_of(cells, -1);
    piece_of_.assign(cells, -1);
    const bool mapped = !s_.pieces.empty();
    if (mapped && static_cast<int>(s_.pieces.size()) != s_.num_stages) refuse(s_);
    for (int stage = 0; stage < s_.num_stages; ++stage) {
      if (mapped && static_cast<int>(s_.pieces[stage].size()) != s_.num_chunks) refuse(s_);
      for (int chunk = 0; chunk < s_.num_chunks; ++chunk) {
        const int piece = plan::piece_of(s_, stage, chunk), cell = stage * s_.num_chunks + chunk;
        if (piece < 0) continue;
        if (piece >= cells || cell_of[piece] >= 0) refuse(s_);
        cell_of[piece] = cell;
        piece_of_[cell] = piece;
        ++num_pieces_;
      }
    }
    previous_.assign(cells, -1);
    next_.assign(cells, -1);
    for (int piece = 0; piece < num_pieces_; ++piece) {
      if (cell_of[piece] < 0) refuse(s_);
      if (piece > 0) previous_[cell_of[piece]] = cell_of[piece - 1];
      if (piece + 1 < num_pieces_) next_[cell_of[piece]] = cell_of[piece + 1];
    }
    if (num_pieces_ == 0) refuse(s_);
  }

  bool in_range(const Slot& slot) const {
    return slot.mb >= 0 && slot.mb < m_ && slot.chunk >= 0 && slot.chunk < s_.num_chunks;
  }

  // Whether what the slot needs from the neighbouring piece has been made.
  bool ready(const Slot& slot, int cell) const {
    if (slot.kind == SlotKind::forward)
      return previous_[cell] < 0 || (done_[at(previous_[cell], slot.mb)] & forward_done);
    if (slot.kind == SlotKind::backward || slot.kind == SlotKind::input_gradient)
      return next_[cell] < 0 || (done_[at(next_[cell], slot.mb)] & gradient_done);
    return true;
  }

  std::size_t at(int cell, int mb) const { return static_cast<std::size_t>(cell) * m_ + mb; }

  void execute() {
    std::vector<std::size_t> place(s_.num_stages, 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (int stage = 0; stage < s_.num_stages; ++stage) {
        const auto& row = s_.rows[stage];
        while (place[stage] < row.size()) {
          const std::size_t i = place[stage];
          const Slot& slot = row[i];
          if (slot.kind == SlotKind::no_op && !slot.joined) {
            ++place[stage];
            continue;
          }
          if (slot.joined && (i + 1 == row.size() || row[i + 1].joined || !in_range(row[i + 1]))) refuse(s_);
          if (!in_range(slot)) refuse(s_);
          const Slot& second = slot.joined ? row[i + 1] : slot;
          if (!ready(slot, cell(stage, slot)) || !ready(second, cell(stage, second))) break;
          add(stage, static_cast<int>(i), slot, slot.joined ? &second : nullptr);
          place[stage] = i + (slot.joined ? 2 : 1);
          moved = true;
        }
      }
    }
    for (int stage = 0; stage < s_.num_stages; ++stage)
      if (place[stage] < s_.rows[stage].size()) refuse(s_);
  }

  int cell(int stage, const Slot& slot) const { return stage * s_.num_chunks + slot.chunk; }

  // Fills in one part of a unit: what it waits for and what it sends.
  void take(const Slot& slot, int c, int& in, int& out) {
    std::uint8_t& done = done_[at(c, slot.mb)];
    const auto stage_of = [&](int other) { return other / s_.num_chunks; };
    const auto due = [&](bool right) {
      if (!right || piece_of_[c] < 0) refuse(s_);
    };
    const auto exchange = [&](int source, int target, std::vector<int>& messages) {
      // Of the same stage it has been made earlier in the row: nothing to wait for.
      if (source >= 0 && stage_of(source) != stage_of(c)) in = messages[at(source, slot.mb)];
      if (target >= 0 && stage_of(target) != stage_of(c)) out = messages[at(c, slot.mb)] = out_.num_messages++;
    };
    switch (slot.kind) {
      case SlotKind::forward:
        due(done == 0);
        done |= forward_done;
        exchange(previous_[c], next_[c], forward_message_);
        break;
      case SlotKind::backward:
        due(done == forward_done && !s_.forward_only);
        done |= gradient_done | weights_done;
        exchange(next_[c], previous_[c], gradient_message_);
        break;
      case SlotKind::input_gradient:
        due(done == forward_done && !s_.forward_only);
        done |= gradient_done;
        exchange(next_[c], previous_[c], gradient_message_);
        break;
      case SlotKind::weight_gradient:
        due(done == (forward_done | gradient_done));
        done |= weights_done;
        break;
      case SlotKind::no_op:
        refuse(s_);
    }
  }

  void add(int stage, int slot, const Slot& first, const Slot* second) {
    GridUnit u{.stage = stage, .slot = slot};
    const Slot* front = &first;
    const Slot* back = second;
    if (second != nullptr) {
      if (front->kind != SlotKind::forward) std::swap(front, back);
      const bool whole = back->kind == SlotKind::backward;
      if (front->kind != SlotKind::forward || (!whole && back->kind != SlotKind::input_gradient)) refuse(s_);
      u.kind = whole ? UnitKind::pair : UnitKind::pair_input;
      u.cell2 = cell(stage, *back);
      u.mb2 = back->mb;
      // The backward first: joined with its own forward it would find none.
      take(*back, u.cell2, u.in2, u.out2);
    } else {
      switch (first.kind) {
        case SlotKind::forward:
          u.kind = UnitKind::forward;
          break;
        case SlotKind::backward:
          u.kind = UnitKind::backward;
          break;
        case SlotKind::input_gradient:
          u.kind = UnitKind::input_gradient;
          break;
        default:
          u.kind = UnitKind::weight_gradient;
      }
    }
    u.cell = cell(stage, *front);
    u.mb = front->mb;
    take(*front, u.cell, u.in, u.out);
    out_.uses[static_cast<int>(u.kind)] = true;
    out_.units.push_back(u);
  }

  void check_complete() const {
    const std::uint8_t all = s_.forward_only ? forward_done : forward_done | gradient_done | weights_done;
    for (int c = 0; c < out_.num_cells(); ++c)
      for (int mb = 0; mb < m_; ++mb)
        if (done_[at(c, mb)] != (piece_of_[c] < 0 ? 0 : all)) refuse(s_);
  }

  const Schedule& s_;
  const int m_;
  int num_pieces_ = 0;
  std::vector<int> piece_of_, previous_, next_;          // by cell; -1: none
  std::vector<std::uint8_t> done_;                       // by cell and micro-batch: Done
  std::vector<int> forward_message_, gradient_message_;  // by cell and micro-batch: what it has sent
  CompiledGrid out_;
};

}  // namespace

CompiledGrid compile(const Schedule& schedule) {
  return Compiler(schedule).run();
}

}  // namespace trireme::sim
