// A schedule made ready for simulation: its slots in an order in which each comes after everything that it needs, with
// the messages between them numbered. Compiled once, it is evaluated with any costs in one linear pass
// (simulate_grid.h).
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "plan/pipeline/schedule.h"

namespace trireme::sim {

enum class UnitKind : std::uint8_t { forward, backward, input_gradient, weight_gradient, pair, pair_input };
inline constexpr int num_unit_kinds = 6;

// One thing that a stage executes: a slot, or two that are joined (then the forward's and the backward's parts are kept
// apart: `cell`, `mb`, `in`, `out` are the forward's and `cell2`, ... the backward's).
struct GridUnit {
  UnitKind kind = UnitKind::forward;
  int stage = 0;
  int cell = 0, mb = 0;  // cell: stage * num_chunks + chunk
  int cell2 = 0, mb2 = 0;
  int in = 0, in2 = 0;      // message that must have arrived; 0 is one that is there from the start
  int out = -1, out2 = -1;  // message that it sends to another stage; -1: none
  int slot = 0;             // of the row; of a pair the first
};

struct CompiledGrid {
  int num_stages = 1;
  int num_chunks = 1;
  int num_micro_batches = 1;
  int num_messages = 1;            // with message 0
  std::vector<GridUnit> units;  // each after what it needs; of one stage in the order of its row
  std::array<bool, num_unit_kinds> uses{};  // which kinds of unit there are
  std::vector<int> row_begin;  // by stage, and one more: where its row starts when all slots are numbered through
  int num_cells() const { return num_stages * num_chunks; }
};

// ConfigError (key "schedule") naming the first of plan::problems where the schedule is not right; rows that wait for
// one another are such a problem. Cost: linear in slots.
CompiledGrid compile(const plan::Schedule& schedule);

}  // namespace trireme::sim
