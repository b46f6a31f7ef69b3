// How unevenly routed rows fall on the ranks of an expert group.
#pragma once
#include "sim/estimate/setting.h"

namespace trireme::sim {

// Rows of the heaviest rank over the mean of all. Counts: the largest sum of a rank's consecutive experts. A
// coefficient of variation `cv` of rows per expert, independent between experts: a rank's sum of n experts varies by cv
// / sqrt(n), and the largest of `ep` such sums is expected at the (ep - 3/8) / (ep + 1/4) quantile of the normal
// distribution (Blom 1958). 1 where nothing is said, or with one rank. Never above ep. No memory is allocated.
double heaviest_rank(const ExpertLoad& load, int num_experts, int ep);
double heaviest_rank(double cv, int num_experts, int ep);

}  // namespace trireme::sim
