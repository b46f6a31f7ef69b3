// A generator gives the transfers of all members, or only those that some consecutive members send: what they cost
// stands for all where members are alike.
#pragma once

namespace trireme::plan {

struct Senders {
  int first = 0;
  int count = -1;  // -1: all
  bool contains(int member) const { return count < 0 || (member >= first && member < first + count); }
};

}  // namespace trireme::plan
