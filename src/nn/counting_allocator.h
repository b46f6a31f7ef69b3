// Counts what the CPU tensors of this process hold: c10's CPU allocator wrapped, so that everything that torch allocates
// is seen, autograd's and c10d's buffers too. Accelerators have caching allocators with statistics of their own.
#pragma once
#include <cstdint>

namespace trireme::nn {

struct MemoryCount {
  std::int64_t bytes = 0;       // held now
  std::int64_t peak_bytes = 0;  // highest since the last reset
};

// From now on allocations are counted; those of before are not, nor their release. Idempotent, and never undone.
void install_counting_allocator();
// All zero before it is installed.
MemoryCount counted_memory();
// The peak becomes what is held now.
void reset_peak_memory();

}  // namespace trireme::nn
