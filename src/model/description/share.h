// What one rank has of a micro-batch, and what it has of the model: tokens, rows and the degrees that cut a layer.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace trireme::model {

// What an exchange of rows asks of the rank's own kernels and memory (plan/all_to_all describes its messages).
enum class RowExchange : std::uint8_t {
  rows,      // every row as it is
  packed,    // rows are packed by the node that they go to, and handed out there
  staged,    // a gather between nodes first: tokens of other nodes lie between the two steps
  tokens,    // a token once to each destination; what arrives is copied to its experts' rows
  gathered,  // every rank sees all tokens and sums what its experts made of them
};

struct Share {
  double sequences = 1;        // of a micro-batch
  double sequence_length = 0;  // keys of a token, for stored scores
  double tokens = 0;           // micro-batch x sequence / cp: what a tensor-parallel rank multiplies
  double split_tokens = 0;     // of the residual stream: over tp too, with sequence parallelism
  double rows_sent = 0;        // routed rows of the rank's tokens
  double rows = 0;             // rows that its experts process, those gathered over etp included
  int tp = 1, cp = 1, ep = 1, etp = 1;
  bool sequence_parallel = false;  // with tp: norms and residuals are split by token
  RowExchange exchange = RowExchange::rows;
  bool tensor_beside = false;   // collectives of tensor ranks run beside the matmuls next to them
  bool experts_beside = false;  // dispatch and combine run beside another micro-batch
  int threads = 1;              // of a rank: each has scratch of its own in tiled kernels
  bool training = true;         // else the loss has no gradient
};

// Of a size that `ranks` ranks cut: the largest rank's.
inline double held(double whole, int ranks) {
  return ranks == 1 ? whole : std::ceil(whole / ranks);
}

}  // namespace trireme::model
