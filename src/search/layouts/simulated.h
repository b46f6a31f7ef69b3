// A search's best layouts on the second level: lowered to actions, simulated, and ranked by that.
#pragma once
#include <optional>
#include <vector>

#include "search/layouts/exact.h"
#include "sim/simulated_layout.h"

namespace trireme::search {

// Layouts with more actions keep the value of their slots: a plan of so many takes seconds and hundreds of megabytes.
inline constexpr double most_actions = 400'000;

struct Simulated {
  std::vector<Estimate> best;                     // the same layouts, fastest first
  std::optional<sim::SimulatedLayout> of_first;  // none where it has too many actions
};
Simulated simulate_best(const Question& question, const std::vector<Estimate>& best, ScheduleShelf& shelf);

}  // namespace trireme::search
