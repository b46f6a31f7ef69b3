// ZB-V (Qi et al., 2023, section 6): each stage holds two chunks of a V, pieces s and 2 * stages - 1 - s, and splits
// backwards, so that a micro-batch's forward comes back to the first stage just when its backward can start there. On
// stage s of p, with chunks in brackets:
//   F(0) 2 (p - s) - 1 times; F(1) F(0) s times; F(1) I(1) W(1) p - s times; then F(0) I(0) W(0) F(1) I(1) W(1) until
//   the forwards are used up, I(0) I(1) s times, I(0) W(0) p - s times, and the weight gradients that are left.
// In flight at most 2p chunks' forwards, as much memory as 1F1B's first stage. With equal times F = I = W and free
// messages no stage idles between its first and its last slot: the step takes 6 m + p - 1 of them for m >= p
// micro-batches.
//
// With times, the order of forwards and input gradients stays and the weight gradients go where these leave gaps
// (plan/pipeline/weight_placement.h), as the paper's heuristic does.
#pragma once
#include "plan/pipeline/generators.h"

namespace trireme::plan {

// options.times: none, one for all chunks, or one for each [stage * 2 + chunk]. The phases need 2p - 1 micro-batches;
// with fewer it is the schedule for those without the surplus ones, its weight gradients placed again.
Schedule zero_bubble_v(const ScheduleOptions& options);

}  // namespace trireme::plan
