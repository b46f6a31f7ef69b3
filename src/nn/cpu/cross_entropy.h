// The head on one chunk of tokens: logits, cross-entropy, and the gradient, with the logits in a buffer of the chunk's
// size. Legend: C tokens of the chunk, D hidden, V vocabulary.
#pragma once
#include <cstdint>

namespace trireme::nn::cpu {

template <class T>
struct HeadChunk {
  std::int64_t tokens = 0, hidden = 0, vocab = 0;
  const T* x_CD = nullptr;  // after the final norm
  const T* weight_VD = nullptr;
  const std::int64_t* targets_C = nullptr;
  const float* weights_C = nullptr;
  T* logits_CV = nullptr;   // workspace
  double seed = 0;          // 0: no gradient, and the two below are not used
  T* dx_CD = nullptr;       // written
  T* dweight_VD = nullptr;  // added to
};

// Sum over the chunk of weight * cross-entropy; a weight of zero gives zero whatever the logits.
template <class T>
double head_chunk(const HeadChunk<T>& chunk);

}  // namespace trireme::nn::cpu
