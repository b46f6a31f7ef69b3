#include "sim/estimate/memory_row.h"

#include <algorithm>

namespace trireme::sim {

using plan::Slot;
using plan::SlotKind;

namespace {

double before(const PieceMemory& m, SlotKind kind) {
  return kind == SlotKind::forward ? 0 : kind == SlotKind::weight_gradient ? m.weight_held : m.saved;
}
double worst(const PieceMemory& m, SlotKind kind) {
  switch (kind) {
    case SlotKind::forward:
      return m.forward_peak;
    case SlotKind::backward:
      return m.backward_peak;
    case SlotKind::input_gradient:
      return m.input_peak;
    case SlotKind::weight_gradient:
      return m.weight_peak;
    case SlotKind::no_op:
      break;
  }
  return 0;
}
double after(const PieceMemory& m, SlotKind kind) {
  return kind == SlotKind::forward ? m.saved : kind == SlotKind::input_gradient ? m.weight_held : 0;
}

}  // namespace

bool MemoryRow::running_forward(std::size_t chunk) const {
  for (std::size_t i = peak_slot; i < row.size() && i <= static_cast<std::size_t>(peak_slot) + 1; ++i) {
    if (row[i].kind == SlotKind::forward && row[i].chunk == static_cast<int>(chunk)) return true;
    if (!row[i].joined) break;
  }
  return false;
}

void MemoryRow::end(const Slot& slot) {
  const PieceMemory& m = chunks[slot.chunk].memory;
  level += after(m, slot.kind) - before(m, slot.kind);
  if (slot.kind == SlotKind::forward) ++in_flight[slot.chunk], host += m.host;
  if (slot.kind == SlotKind::backward || slot.kind == SlotKind::input_gradient) --in_flight[slot.chunk], host -= m.host;
  if (slot.kind == SlotKind::input_gradient) ++weights_due[slot.chunk];
  if (slot.kind == SlotKind::weight_gradient) --weights_due[slot.chunk];
  host_peak = std::max(host_peak, host);
}

void MemoryRow::run(bool keep_slots) {
  in_flight.assign(chunks.size(), 0);
  weights_due = peak_in_flight = peak_weights_due = in_flight;
  if (keep_slots) slots.resize(row.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    // Joined slots run at one time: both worst moments may meet.
    const std::size_t count = row[i].joined && i + 1 < row.size() ? 2 : 1;
    double now = level;
    for (std::size_t k = i; k < i + count; ++k)
      if (row[k].kind != SlotKind::no_op) {
        const PieceMemory& m = chunks[row[k].chunk].memory;
        now += worst(m, row[k].kind) - before(m, row[k].kind);
      }
    if (backward_seen) {
      if (!first_stage) now += stream;                                     // sent last
      if (!last_stage && row[i].kind == SlotKind::forward) now += stream;  // received last
    }
    if (now > peak || peak_slot < 0) {
      peak = now, peak_slot = static_cast<int>(i), peak_level = level;
      peak_in_flight = in_flight, peak_weights_due = weights_due;
    }
    for (std::size_t k = i; k < i + count; ++k) {
      if (row[k].kind == SlotKind::no_op) continue;
      backward_seen = backward_seen || row[k].kind != SlotKind::forward;
      end(row[k]);
    }
    if (keep_slots)
      for (std::size_t k = i; k < i + count; ++k) slots[k] = {now, level};
    i += count - 1;
  }
}

}  // namespace trireme::sim
