// A set of members as an arithmetic progression: all that patterns need, and small enough for patterns of a thousand
// members.
#pragma once
#include <compare>

namespace trireme::plan {

struct Members {
  int first = 0;
  int count = 1;
  int stride = 1;
  auto operator<=>(const Members&) const = default;

  int operator[](int i) const { return first + i * stride; }
  int last() const { return first + (count - 1) * stride; }
  bool contains(int member) const { return member >= first && member <= last() && (member - first) % stride == 0; }
};

}  // namespace trireme::plan
