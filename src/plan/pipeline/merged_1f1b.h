// 1F1B in which every forward of the steady state is overlapped with a backward of an earlier micro-batch, so that each
// hides the other's expert communication: Pangu's Adaptive Pipe Overlap, MindSpeed's fb-overlap, Megatron-LM's overlap
// of expert-parallel communication in 1F1B. As interleaved 1F1B, with one forward more in the warm-up, since a joined
// backward can't wait for the forward beside it: 2 (stages - 1 - s) + (v - 1) group + 1 forwards on stage s, v >= 1. On
// one stage with one chunk: F0 F1+B0 F2+B1 ... B_last. One more forward is in flight than in interleaved 1F1B.
#pragma once
#include "plan/pipeline/generators.h"

namespace trireme::plan {

// ConfigError as interleaved_1f1b where there are several chunks; with one chunk any number of micro-batches does.
Schedule merged_1f1b(const ScheduleOptions& options);

}  // namespace trireme::plan
