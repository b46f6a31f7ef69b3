// ZB-H1 (Qi et al., 2023, section 2.3): 1F1B whose backwards are split, with stage s delaying weight gradients by s
// micro-batches, so that every stage holds as many micro-batches as the first stage of 1F1B. The input gradients get
// through earlier and the delayed weight gradients fill the end. Bubble (stages - 1)(F + I - W) where I and F are not
// shorter than W; in flight at most `stages` micro-batches. With options.times the weight gradients go where the rest
// leaves gaps.
#pragma once
#include "plan/pipeline/generators.h"

namespace trireme::plan {

Schedule zero_bubble_h1(const ScheduleOptions& options);

}  // namespace trireme::plan
