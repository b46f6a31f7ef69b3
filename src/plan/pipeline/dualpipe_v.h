// DualPipeV (DeepSeek, 2025: DualPipe "cut in half"): each stage s of p holds two chunks of a V, pieces s and 2p - 1 -
// s. Eight phases, with chunks in brackets:
//   1  F(0)                 2 (p - 1 - s) times
//   2  F(0) F(1)            s + 1
//   3  I(1) W F(1)          p - 1 - s
//   4  F(0)+B(1) F(1)+B(0)  micro-batches - 2p + s + 1   (the first pair of the last stage is not joined)
//   5  B(1) F(1)+B(0)       p - 1 - s
//   6  B(1) B(0)            s + 1; I instead of B in the second half
//   7  W I(0)               p - 1 - s
//   8  W                    what is left: s + 1
// Weight gradients are taken in the order of their input gradients. Bubble (p - 1)(F&B + B - 3W) with the times of a
// chunk, F&B that of a joined pair and B a whole backward; in flight at most 2p + 1 chunks' forwards, all stages alike.
#pragma once
#include "plan/pipeline/schedule.h"

namespace trireme::plan {

// The phases need 2p micro-batches; with fewer it is the schedule for 2p without the surplus ones.
Schedule dualpipe_v(int num_stages, int num_micro_batches);

}  // namespace trireme::plan
