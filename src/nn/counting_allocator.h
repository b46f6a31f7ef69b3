// An allocator for CPU tensors that counts what is alive, put in front of libtorch's own. One for the process.
#pragma once
#include <cstdint>

namespace trireme::nn {

// Makes c10's CPU allocator count from now on; calling it again does nothing. Tensors made before are not counted, and
// their release is not either. Not to be called while other threads allocate.
void install_counting_allocator();

// Fresh memory then holds NaN (0xff in every byte: a NaN of any width, -1 as an integer), so that a read before the
// write shows in the numbers, inside of libtorch's operators too. On from the start with TRIREME_POISON.
void poison_fresh_memory(bool on);

std::int64_t current_tensor_bytes();
std::int64_t peak_tensor_bytes();  // since the last reset
void reset_peak_tensor_bytes();    // the peak becomes what is alive now

}  // namespace trireme::nn
