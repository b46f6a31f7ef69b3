// When the phases of exchanges ran on this rank: from when it could begin to send until all that it receives in the phase
// is there, the wait for a late partner included; the last one to end also until what it sends has left. Arrival is not
// seen before it is waited for: of phases side by side, those that others come after are waited for first.
#pragma once
#include <chrono>
#include <string>
#include <vector>

namespace trireme::comm {

struct PhaseLog {
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::string part, phase;
    Clock::time_point begin, end;
  };
  std::string part;  // of what is exchanged next: "rows"
  std::vector<Entry> entries;

  void add(const std::string& phase, Clock::time_point begin, Clock::time_point end) {
    entries.push_back({part, phase, begin, end});
  }
};

}  // namespace trireme::comm
