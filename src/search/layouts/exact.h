// One layout estimated in full: memory by stage over the schedule's slots, and time by executing the schedule.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "search/layouts/question.h"
#include "sim/estimate/memory.h"
#include "sim/estimate/step_model.h"

namespace trireme::search {

struct Estimate {
  sim::Setting setting;
  bool feasible = false;
  std::vector<std::string> reasons;  // why not
  sim::StepTime time;                // unset where a rule is broken
  double needed_bytes = 0;           // of the heaviest stage
  double headroom_bytes = 0;         // of the device's memory
  bool simulated = false;            // step and memory are of its lowered plan (simulated.h), not of its slots
  double tokens_per_s() const { return time.tokens_per_s_per_device * setting.num_devices; }
};

// A schedule and what its simulation starts from.
struct ReadySchedule {
  plan::Schedule schedule;
  std::shared_ptr<const sim::CompiledGrid> grid;
};

// Schedules by name, stages, chunks, micro-batches and their groups, made once and shared by threads. Holds at most so
// many slots, then starts over.
class ScheduleShelf {
 public:
  explicit ScheduleShelf(double most_slots = 8e6) : most_slots_(most_slots) {}
  std::shared_ptr<const ReadySchedule> get(const sim::Setting& setting);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const ReadySchedule>> ready_;
  double most_slots_, slots_ = 0;
};

// Of a setting that breaks no rule. With memory that does not fit, time is estimated only where `infeasible_too`.
Estimate estimate(const Question& question, const sim::Setting& setting, ScheduleShelf& shelf,
                  sim::GridWorkspace& workspace, bool infeasible_too = false);

// The memory of an estimate's layout with its breakdown and its curve.
sim::MemoryEstimate memory_of(const Question& question, const sim::Setting& setting, ScheduleShelf& shelf);

}  // namespace trireme::search
