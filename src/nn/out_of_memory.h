// A failed allocation as a failure of the run, and not as a bug: std::bad_alloc, c10's errors of its allocators, containers
// and tensors whose size no computer could hold.
#pragma once
#include <exception>
#include <optional>
#include <string>

#include "base/errors.h"

namespace trireme::nn {

// "out of memory: 4.00 GiB more were asked for; this rank's tensors hold 2.10 GiB, at most so far 3.00 GiB", by the counting
// allocator; none where the error is another one.
std::optional<std::string> out_of_memory(const std::exception& error);

// A RuntimeFailure of that reason.
class OutOfMemory : public RuntimeFailure {
 public:
  explicit OutOfMemory(Detail detail) : RuntimeFailure(std::move(detail)) {}
};

}  // namespace trireme::nn
