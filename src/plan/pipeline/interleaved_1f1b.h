// Interleaved 1F1B (Narayanan et al., 2021, section 2.2, as Megatron-LM executes it): a stage holds v chunks, chunk c
// of stage s being piece c * stages + s, and takes them in turn, `micro_batch_group` g micro-batches of one after
// another. Stage s warms up with 2 (stages - 1 - s) + (v - 1) g forwards, then alternates. Bubble (stages - 1)(F + B) /
// v where F + B is a whole stage's; in flight at most the warm-up and one more.
#pragma once
#include <vector>

#include "plan/pipeline/generators.h"

namespace trireme::plan {

// num_chunks >= 2. ConfigError (layout.micro_batch_group) unless stages <= group <= micro-batches and the last group is
// whole or has at least `stages` micro-batches: a shorter one would stall every stage. That refuses fewer micro-batches
// than stages, and without a group (= stages) numbers that stages don't divide; the error says which groups would do.
Schedule interleaved_1f1b(const ScheduleOptions& options);

// The order in which forwards are taken; backwards take the same with the chunks from last to first. Checks as above.
std::vector<Slot> interleaved_forwards(const ScheduleOptions& options);
// Rows of forwards and backwards in that order: stage s warms up with warm_up(s) forwards, then takes one of each,
// joined or not, and the backwards that are left.
void fill_interleaved_rows(Schedule& schedule, const std::vector<Slot>& forwards, int warm_up_of_last, bool joined);

}  // namespace trireme::plan
