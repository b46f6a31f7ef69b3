// What a rank says that ran out of memory while it trained: where, and what holds it.
#pragma once
#include <functional>
#include <string>

#include "trireme/memory_check.h"

namespace trireme::apps {

// Runs `work`. A failed allocation in it becomes a RuntimeFailure with the rank, the action (or "outside of a step": the
// model, data, a checkpoint), what tensors hold by the allocator, and the parts of the peak that the plan expects of a rank
// of this stage. Other errors pass.
void name_memory_holders(int rank, const std::vector<plan::MemoryPart>& expected, const std::function<void()>& work);

// The same for what is no run: a failed allocation becomes a RuntimeFailure with the operation.
void tell_out_of_memory(const std::string& operation, const std::function<void()>& work);

}  // namespace trireme::apps
