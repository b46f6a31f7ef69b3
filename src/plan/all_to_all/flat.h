// Flat: every member sends every other its block directly, in one phase; p - 1 messages a member. Step t: member r
// sends to r + t and receives from r - t (mod p).
#pragma once
#include "plan/all_to_all/pattern.h"
#include "plan/all_to_all/senders.h"

namespace trireme::plan {

// All messages at once: where it is run, the backend's own all-to-all.
Pattern flat(int size, Senders senders = {});
// One step at a time.
Pattern pairwise(int size, Senders senders = {});
// At most `in_flight` messages of a member at once.
Pattern scattered(int size, int in_flight, Senders senders = {});

}  // namespace trireme::plan
