// Where the ranks of a group lie among all ranks, in closed form: what pricing asks instead of listing members.
#pragma once
#include <algorithm>

namespace trireme::plan {

// `size` ranks in `runs` runs of equally many: `stride` apart within a run, runs `run_stride` apart. {size, stride} is one
// run. Any set of dense axes, or of the experts', is one or two: the four of them leave no room for a third.
struct GroupPlace {
  double size = 1, stride = 1;
  double runs = 1, run_stride = 1;

  double run() const { return size / runs; }

  // Its members among the first `ranks` ranks from one of its own on: those in a node that begins with a member.
  double members_within(double ranks) const {
    if (runs == 1) return std::clamp(ranks / stride, 1.0, size);
    return std::clamp(ranks / stride, 1.0, run()) * std::clamp(ranks / run_stride, 1.0, runs);
  }

  // Its first `n` members; n divides the size and is whole runs or a part of one that divides it.
  GroupPlace first(double n) const {
    if (n >= size) return *this;
    if (n <= run()) return {n, stride};
    return {n, stride, n / run(), run_stride};
  }

  // Every nth member: those at one place in each of its parts of n.
  GroupPlace every(double n) const {
    if (n >= size) return {};
    if (runs == 1) return {size / n, stride * n};
    if (n >= run()) return {size / n, run_stride * n / run()};
    return {size / n, stride * n, runs, run_stride};
  }
};

}  // namespace trireme::plan
