// A collective's failure, told as that of a message between two is.
#pragma once
#include <fmt/format.h>

#include "base/errors.h"

namespace trireme::comm {

// Runs `act`; a failure whose rank is known also names it as the peer of the operation.
template <class Act>
void with_peer(Act&& act) {
  try {
    act();
  } catch (const RuntimeFailure& failure) {
    RuntimeFailure::Detail detail = failure.detail();
    if (detail.rank >= 0) detail.operation += fmt::format(", with rank {}", detail.rank);
    throw RuntimeFailure(std::move(detail));
  }
}

}  // namespace trireme::comm
