// A plan's actions made ready for simulation: a list for each stage, standing for all of its ranks, or for each rank.
#pragma once
#include <array>
#include <vector>

#include "sim/simulate.h"

namespace trireme::sim {

struct ActionList {
  int stage = 0;
  const std::vector<plan::Action>* actions = nullptr;  // the plan's, not owned
  std::vector<double> length;                          // of each action alone, scaled and with its noise
  std::array<int, plan::num_lanes> first_in_lane{};    // action ids; -1: none
  std::vector<int> next_in_lane;                       // by action
  std::vector<int> first_successor, successors;  // of action a: successors[first_successor[a]] up to [a + 1]'s first
};

// std::logic_error where costs don't fit the plan, or an action waits for one that there is not.
std::vector<ActionList> action_lists(const plan::Plan& plan, const plan::Costs& costs, const SimulateOptions& options);

// std::logic_error naming the action where it has not been completed: its lane stands still before it.
void check_completed(const ActionList& list, int action, bool completed);

}  // namespace trireme::sim
