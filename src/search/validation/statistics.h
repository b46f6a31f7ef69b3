// Errors of predictions, and how well they rank.
#pragma once
#include <vector>

namespace trireme::search {

double mean(const std::vector<double>& values);  // 0 of none
double median(std::vector<double> values);       // of an even number, the mean of the middle two; 0 of none
// Rank correlation; equal values share their mean rank. 1 where either side is constant or has fewer than two values
// and the other too; 0 where only one is constant.
double spearman(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace trireme::search
