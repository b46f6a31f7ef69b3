// What one micro-batch is on a rank, in tokens, rows and bytes of an element.
#pragma once
#include "model/kernels.h"
#include "sim/estimate/setting.h"

namespace trireme::sim {

struct MemorySizes {
  double tokens = 0;        // micro-batch x sequence / cp: what a tensor-parallel rank multiplies
  double split_tokens = 0;  // of the residual stream: over tp too, with sequence parallelism
  double sequence = 0;      // keys of a token, for stored scores
  double rows_sent = 0;     // routed rows of the rank's tokens
  double rows = 0;          // rows that its experts process, those gathered over etp included
  int tp = 1, cp = 1, ep = 1, etp = 1;
  int local_experts = 0;
  double element = 2;      // bytes of an activation
  double kept_input = 2;   // bytes of an element of a matmul's saved input
  bool quantised = false;  // matmul inputs are quantised copies
};

// `load_factor`: rows of the heaviest rank over the mean; 1 where the kernels pads experts to a fixed number of rows.
MemorySizes memory_sizes(const Setting& setting, const model::Kernels& kernels, double load_factor);

// Rows of the vocabulary's matrices on a rank, padding included.
double vocabulary_rows(const Setting& setting, const model::Kernels& kernels);

}  // namespace trireme::sim
