// Bruck: ceil(log2 p) rounds of one message a member, each of about half of all blocks: few messages, (log2 p) / 2
// times the bytes. Round k: member r sends to r + 2^k what it holds for distances with bit k set. Source: Bruck et al.,
// IEEE TPDS 8 (1997), sec. 2, radix 2.
#pragma once
#include "plan/all_to_all/pattern.h"
#include "plan/all_to_all/senders.h"

namespace trireme::plan {

Pattern bruck(int size, Senders senders = {});

}  // namespace trireme::plan
