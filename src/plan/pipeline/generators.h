// Schedules by the name that a config gives.
#pragma once
#include <string>
#include <vector>

#include "plan/pipeline/schedule.h"

namespace trireme::plan {

// What a slot of one chunk takes; a backward takes both halves. `send_s`: its output to another stage.
struct SlotTimes {
  double forward_s = 1;
  double input_gradient_s = 1;
  double weight_gradient_s = 1;
  double send_s = 0;
};

struct ScheduleOptions {
  int num_stages = 1;
  int num_micro_batches = 1;
  int num_chunks = 0;         // a stage; 0: as the schedule has it by itself (2 of interleaved and V shapes)
  int micro_batch_group = 0;  // interleaved and merged: micro-batches of a chunk in a row; 0: num_stages
  // Zero bubble: places weight gradients by these times, one for all chunks or one for each [stage * chunks + chunk];
  // none: the order that the papers give for equal times.
  std::vector<SlotTimes> times;
};

// gpipe, 1f1b, interleaved_1f1b, merged_1f1b, zero_bubble_h1, zero_bubble_v, dualpipe_v
std::vector<std::string> schedule_names();
// The chunks that a stage has in a schedule of this name when `virtual_stages` are asked for; 0 or 1: what it has by
// itself, 1 or 2.
int chunks_a_stage(const std::string& name, int virtual_stages = 0);
// Whether it has so many where they are asked for.
bool can_have_chunks(const std::string& name, int virtual_stages);
PieceMap piece_map(const std::string& name);
// Schedule::pieces of a schedule of this name.
std::vector<std::vector<int>> stage_map(const std::string& name, int num_stages);

// ConfigError for an unknown name (key layout.schedule), a number of chunks that the schedule doesn't have
// (layout.virtual_stages), or micro-batches that it can't group (layout.micro_batch_group).
Schedule make_schedule(const std::string& name, const ScheduleOptions& options);
Schedule make_schedule(const std::string& name, int num_stages, int num_micro_batches);

// Whether the runtime executes all of them. Until it does, `trireme train` takes what why_not_runnable says nothing
// about.
inline constexpr bool all_are_executed = false;
// Empty where the runtime executes schedules of this name, or this schedule, else why not.
std::string why_not_runnable(const std::string& name);
std::string why_not_runnable(const Schedule& schedule);

}  // namespace trireme::plan
