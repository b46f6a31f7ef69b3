// Which actions of different stages, or of different ranks, run together: each send with its receive, and the members
// of a collective.
#pragma once
#include <string>
#include <vector>

#include "plan/plan.h"

namespace trireme::plan {

struct Member {
  int list = 0;  // a stage, or a rank
  int action = 0;
  bool operator==(const Member&) const = default;
};

struct Rendezvous {
  std::vector<std::vector<Member>> sets;  // of two or more members
  std::vector<std::vector<int>> set_of;   // [list][action]: index into sets, -1: runs alone
};

// One list a stage, standing for all of its ranks. The i-th send from stage a to b in a pass meets the i-th receive of
// b from a in it; the i-th collective of a group that crosses stages (world, pp, embedding) on one stage meets the i-th
// on each other member. std::logic_error when one has no partner.
Rendezvous match(const Plan& plan);

// One list a rank: also the members of a collective inside a stage.
Rendezvous match_ranks(const Plan& plan);

// The proof of a plan's order: executes it, with no time, as every lane of every stage does. Empty where all actions
// complete, else why not: a message without its partner, or actions that wait for one another, each named. Waits must
// name earlier actions of the list. Cost: linear in actions and waits.
std::string why_stuck(const Plan& plan);

}  // namespace trireme::plan
