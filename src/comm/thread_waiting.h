// How the threads of a rank's OpenMP team wait for work: asleep. Threads that spin for some milliseconds, libgomp's way
// where nothing is said, take the cores from whoever has work: from other ranks, and from the thread of their own team
// that the system has put aside for another program.
#pragma once
#include <array>
#include <utility>

namespace trireme::comm {

// Variables that libgomp reads when it is loaded; each is set only where the user has not.
inline constexpr std::array<std::pair<const char*, const char*>, 2> passive_waiting{
    {{"OMP_WAIT_POLICY", "passive"}, {"GOMP_SPINCOUNT", "0"}}};

}  // namespace trireme::comm
