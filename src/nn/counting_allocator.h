// An allocator for CPU tensors that counts what is alive, put in front of libtorch's own. One for the process.
#pragma once
#include <cstdint>

namespace trireme::nn {

// Makes c10's CPU allocator count from now on; calling it again does nothing. Tensors made before are not counted, and
// their release is not either. Not to be called while other threads allocate.
void install_counting_allocator();

std::int64_t current_tensor_bytes();
std::int64_t peak_tensor_bytes();  // since the last reset
void reset_peak_tensor_bytes();    // the peak becomes what is alive now

}  // namespace trireme::nn
