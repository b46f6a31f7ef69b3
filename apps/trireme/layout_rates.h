// What an estimate multiplies sizes with, and where each number is from: for --explain.
#pragma once
#include <string>
#include <vector>

#include "search/layouts/target.h"

namespace trireme::apps {

struct Rate {
  std::string what;
  double value = 0;
  std::string unit;    // "TFLOP/s", "GB/s", "us", "rows", or "" of a share
  std::string source;  // "dgx_h100's data sheet x node_link of H100-SXM5-80GB, profile published"
};

std::vector<Rate> rates_of(const search::Target& target);

}  // namespace trireme::apps
