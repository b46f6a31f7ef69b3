// A model that goes on from what a cache holds: only the new tokens are computed, a token at a time or a prompt at
// once. Every matrix product but attention's own has as many rows as there are new tokens, however long the sequences
// are already. Experts see the new tokens alone, and no token is dropped.
#pragma once
#include "nn/key_value_cache.h"
#include "nn/model.h"

namespace trireme::nn {

// The whole model on one device: logits (runs, V), in the order of the runs, of what follows each run's last token. The
// new tokens are in the cache afterwards. No gradients.
at::Tensor next_logits(Model& model, const NewTokens& tokens, KeyValueCache& cache);

// The tokens that end the runs, of new tokens' hidden states.
at::Tensor last_rows(const NewTokens& tokens, const at::Tensor& x_TD);

}  // namespace trireme::nn
