// `trireme plan ... --runnable`: the fastest layout of a run that `trireme train` executes.
#pragma once
#include <string>

#include "search/runs/runnable_layouts.h"
#include "trireme/planned_run.h"
#include "trireme/platform_choice.h"
#include "trireme/question_choice.h"

namespace trireme::apps {

struct RunnableOptions {
  PlanOutput output;
  std::string out;  // the run's file; empty: none
  int top = 10, threads = 0;
};

// Lists the layouts and simulates each where they are few; else searches by bounds and simulates the best. Prints the
// fastest that fits in memory, those behind it, and, on a probed host, what fewer ranks would take. ConfigError for a
// model that train can't run, or where no layout has so many ranks.
void plan_runnable(const search::RunQuestion& question, const ChosenQuestion& chosen, const ChosenPlatform& platform,
                   const RunnableOptions& options);

// More layouts than this are not listed.
inline constexpr std::size_t most_listed = 400;

}  // namespace trireme::apps
