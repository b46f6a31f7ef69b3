// The operators of one layer on one rank as a tape (memory_tape.h): which tensors there are, how large, who saves them.
// Follows Megatron-LM's modules on Transformer Engine (LayerNormLinear, Linear, GroupedLinear, fused attention, fused
// permutation) with the choices of Kernels, which also describe plainer stacks: with flash_attention off and
// dropout on, a dense layer is that of Korthikanti et al. 2022 (arXiv 2205.05198), section 4: sbh (34 + 5 a s / h)
// bytes.
#pragma once
#include "sim/estimate/memory_sizes.h"
#include "sim/estimate/memory_tape.h"

namespace trireme::sim {

// Layers from num_layers on are MTP blocks' (attention and feed-forward only; the wrapper is mtp_tape's).
Tape layer_tape(const Setting& setting, const model::Kernels& kernels, const MemorySizes& sizes, int layer,
                plan::RecomputeSet recompute);
// Norm of the last hidden state, logits and loss.
Tape head_tape(const Setting& setting, const model::Kernels& kernels, const MemorySizes& sizes);
// Embedding and hidden state, their norms and the projection of both to the block's input.
Tape mtp_tape(const Setting& setting, const model::Kernels& kernels, const MemorySizes& sizes);

}  // namespace trireme::sim
