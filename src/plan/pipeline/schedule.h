// A pipeline schedule: for each stage a row of slots. Prints as a grid, parses back, validates.
//
//   1f1b, 2 stages, 3 micro-batches, 1 chunk
//   stage 0 | F0 F1 B0 F2 B1 B2
//   stage 1 | F0 B0 F1 B1 F2 B2
//
// A slot is KIND MICRO-BATCH [. CHUNK]: F forward, B backward (input and weight gradients), I input gradient,
// W weight gradient; "-" does nothing. Two slots joined by + are executed together, as one: "F3.1+B2" overlaps a
// forward with a backward of another micro-batch.
//
// Chunk c of stage s is the (c * stages + s)-th piece of the model unless the row says which pieces its chunks are:
// "stage 0 (0 7) | ..." holds the first and the last of eight (a V); "-" there is an empty chunk, which has no slots.
#pragma once
#include <string>
#include <vector>

namespace trireme::plan {

enum class SlotKind : char {
  forward = 'F',
  backward = 'B',
  input_gradient = 'I',
  weight_gradient = 'W',
  no_op = '-'  // has neither micro-batch nor chunk (both 0)
};

struct Slot {
  SlotKind kind = SlotKind::forward;
  int mb = 0;
  int chunk = 0;
  bool joined =
      false;  // runs together with the slot after it: a forward and a backward (or input gradient), in any order
  bool operator==(const Slot&) const = default;
};

struct Schedule {
  std::string name;
  int num_stages = 1;
  int num_micro_batches = 1;
  int num_chunks = 1;  // a stage
  bool forward_only = false;
  std::vector<std::vector<Slot>> rows;   // by stage
  std::vector<std::vector<int>> pieces;  // [stage][chunk]: which piece of the model, -1: empty; none: the rule above
  bool operator==(const Schedule&) const = default;
};

std::string to_text(const Schedule& schedule);
std::string to_text(const Slot& slot);
Schedule parse_schedule(const std::string& text);  // ConfigError with the line

// A schedule as a file has it: where each stage's row stands.
struct ScheduleText {
  Schedule schedule;
  std::vector<int> lines;  // by stage, from 1
};
ScheduleText parse_schedule_text(const std::string& text);  // as parse_schedule

// Empty when right; else what is wrong, one line each: a slot missing or twice, a backward before its forward, a
// weight gradient before its input gradient, slots joined that can't be, pieces that are not a model, rows that wait
// for one another (the grid is executed with unlimited buffers: a row that can't go on names its slot).
std::vector<std::string> problems(const Schedule& schedule);

struct ScheduleProblem {
  int stage = -1;    // whose row is wrong; -1: the whole
  std::string text;  // names the stage
};
std::vector<ScheduleProblem> located_problems(const Schedule& schedule);  // the same
// Messages between two stages that are not taken in the order in which they are sent: no lane could receive them. Of a
// schedule without problems.
std::vector<ScheduleProblem> crossed_messages(const Schedule& schedule);

// Which piece of the model a stage's chunk is; -1: empty.
int piece_of(const Schedule& schedule, int stage, int chunk);
int num_pieces(const Schedule& schedule);  // without the empty ones

// How the pieces of a model lie over stages.
enum class PieceMap {
  round,  // chunk after chunk round the stages: the rule above
  v,      // two chunks, the second back from the last stage to the first: the last piece is on stage 0
};
constexpr int piece_of(PieceMap map, int num_stages, int stage, int chunk) {
  return map == PieceMap::v && chunk == 1 ? 2 * num_stages - 1 - stage : chunk * num_stages + stage;
}
// Schedule::pieces of a V.
std::vector<std::vector<int>> v_shape(int num_stages);

// The same schedule without the pieces listed (by their number in `schedule`): their chunks become empty, their slots
// "-", and the pieces after them move up. For models whose layers don't fill every chunk.
Schedule without_pieces(const Schedule& schedule, const std::vector<int>& dropped);
// The same schedule without the micro-batches from `num_micro_batches` on.
Schedule first_micro_batches(const Schedule& schedule, int num_micro_batches);

// Highest number of forwards (of any chunk) that are done and whose backward is not, on a stage. A joined pair holds
// its forward's before it gives its backward's free.
int peak_in_flight(const Schedule& schedule, int stage);

}  // namespace trireme::plan
