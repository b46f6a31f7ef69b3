// Holds what is done for one input against a limit: memory through operator new, and processor time.
#pragma once
#include <cstdint>
#include <string>

namespace trireme::fuzz {

inline constexpr std::int64_t most_bytes = std::int64_t{512} << 20;  // held at once for one input, which has 64 KiB at most
inline constexpr int most_seconds = 20;                              // of processor time for one input

// From here on allocations are counted from 0 and processor time too; `input` is what a crash prints. An allocation beyond
// the limit throws std::bad_alloc. Kept by reference until end_input().
void begin_input(const std::string& format, const std::string& input);
// What went beyond the limit since; empty: nothing. Readers that turn std::bad_alloc into an error don't hide it.
std::string end_input();

// A crash, or processor time beyond the limit, writes the input to `folder` and says where, then ends the process.
void write_crashes_to(const std::string& folder);

}  // namespace trireme::fuzz
