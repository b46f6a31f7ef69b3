// The operators of one layer on one rank as a tape (memory_tape.h): which tensors there are, how large, who saves them.
// Follows Megatron-LM's modules on Transformer Engine (LayerNormLinear, Linear, GroupedLinear, fused attention, fused
// permutation) with the choices of a MemoryProfile, which also describe plainer stacks: with flash_attention off and
// dropout on, a dense layer is that of Korthikanti et al. 2022 (arXiv 2205.05198), section 4: sbh (34 + 5 a s / h)
// bytes.
#pragma once
#include "platform/memory_profile.h"
#include "sim/estimate/memory_tape.h"
#include "sim/estimate/setting.h"

namespace trireme::sim {

// What one micro-batch is on a rank.
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

// `load_factor`: rows of the heaviest rank over the mean.
MemorySizes memory_sizes(const Setting& setting, double load_factor);

// Layers from num_layers on are MTP blocks' (attention and feed-forward only; the wrapper is mtp_tape's).
Tape layer_tape(const Setting& setting, const platform::MemoryProfile& profile, const MemorySizes& sizes, int layer,
                plan::RecomputeSet recompute);
// Norm of the last hidden state, logits and loss.
Tape head_tape(const Setting& setting, const platform::MemoryProfile& profile, const MemorySizes& sizes);
// Embedding and hidden state, their norms and the projection of both to the block's input.
Tape mtp_tape(const Setting& setting, const platform::MemoryProfile& profile, const MemorySizes& sizes);

// Rows of the vocabulary's matrices on a rank, padding included.
double vocabulary_rows(const Setting& setting, const platform::MemoryProfile& profile);

}  // namespace trireme::sim
