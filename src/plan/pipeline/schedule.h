// A pipeline schedule: for each stage a row of slots. Prints as a grid, parses back, validates.
//
//   1f1b, 2 stages, 3 micro-batches, 1 chunk
//   stage 0 | F0 F1 B0 F2 B1 B2
//   stage 1 | F0 B0 F1 B1 F2 B2
//
// A slot is KIND MICRO-BATCH [. CHUNK]: F forward, B backward (input and weight gradients), I input gradient,
// W weight gradient; chunk c of stage s is the (c * stages + s)-th piece of the model unless a stage map says otherwise.
#pragma once
#include <string>
#include <vector>

namespace trireme::plan {

enum class SlotKind : char { forward = 'F', backward = 'B', input_gradient = 'I', weight_gradient = 'W' };

struct Slot {
  SlotKind kind = SlotKind::forward;
  int mb = 0;
  int chunk = 0;
  bool operator==(const Slot&) const = default;
};

struct Schedule {
  std::string name;
  int num_stages = 1;
  int num_micro_batches = 1;
  int num_chunks = 1;  // a stage
  bool forward_only = false;
  std::vector<std::vector<Slot>> rows;  // by stage
  bool operator==(const Schedule&) const = default;
};

std::string to_text(const Schedule& schedule);
Schedule parse_schedule(const std::string& text);  // ConfigError with the line

// Empty when right; else what is wrong, one line each: a slot missing or twice, a backward before its forward, a
// weight gradient before its input gradient, rows that wait for one another (the grid is executed with unlimited
// buffers: a row that can't go on names its slot).
std::vector<std::string> problems(const Schedule& schedule);

// Highest number of micro-batches whose forward is done and whose backward is not, on a stage.
int peak_in_flight(const Schedule& schedule, int stage);

}  // namespace trireme::plan
