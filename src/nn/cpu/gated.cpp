#include "nn/cpu/gated.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "nn/cpu/gemm.h"
#include "nn/cpu/simd.h"
#include "nn/cpu/tasks.h"
#include "nn/fresh.h"

namespace trireme::nn::cpu {
namespace {

template <class T>
TRIREME_INLINE void activate_rows(std::int64_t rows, std::int64_t ffn, const T* gate_up, const T* scores, T* active) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const T *gate = gate_up + r * 2 * ffn, *up = gate + ffn;
    T* out = active + r * ffn;
    const T score = scores == nullptr ? T(1) : scores[r];
#pragma omp simd
    for (std::int64_t i = 0; i < ffn; ++i) out[i] = gate[i] / (T(1) + exponential(-gate[i])) * up[i] * score;
  }
}

// gate_up becomes its gradient; active_gradient holds the gradient of the (scored) activation on entry and the scored
// activation itself, which the down weight's gradient needs, at the end.
template <class T>
TRIREME_INLINE void activate_rows_backward(std::int64_t rows, std::int64_t ffn, T* gate_up, const T* scores,
                                           T* active_gradient, T* score_gradient) {
  for (std::int64_t r = 0; r < rows; ++r) {
    T *gate = gate_up + r * 2 * ffn, *up = gate + ffn, *active = active_gradient + r * ffn;
    const T score = scores == nullptr ? T(1) : scores[r];
    T along = 0;
#pragma omp simd reduction(+ : along)
    for (std::int64_t i = 0; i < ffn; ++i) {
      const T g = gate[i], u = up[i], d = active[i];
      const T sigmoid = T(1) / (T(1) + exponential(-g));
      const T silu = g * sigmoid;
      along += d * silu * u;
      active[i] = silu * u * score;
      const T scored = d * score;
      gate[i] = scored * u * (sigmoid + silu * (T(1) - sigmoid));
      up[i] = scored * silu;
    }
    if (score_gradient != nullptr) score_gradient[r] = along;
  }
}

#define ACTIVATIONS(T)                                                                                              \
  TRIREME_CLONES void activate(std::int64_t rows, std::int64_t ffn, const T* gate_up, const T* scores, T* active) { \
    activate_rows(rows, ffn, gate_up, scores, active);                                                              \
  }                                                                                                                 \
  TRIREME_CLONES void activate_backward(std::int64_t rows, std::int64_t ffn, T* gate_up, const T* scores,           \
                                        T* active_gradient, T* score_gradient) {                                    \
    activate_rows_backward(rows, ffn, gate_up, scores, active_gradient, score_gradient);                            \
  }
ACTIVATIONS(float)
ACTIVATIONS(double)

std::int64_t tile_rows_for(const std::vector<Block>& blocks) {
  std::int64_t rows = 0;
  for (const Block& b : blocks) rows += b.rows;
  return Tiles(rows).size;
}

// Blocks cut into tiles, the largest first so that no thread is left with one at the end.
std::vector<Block> tiles_of(const std::vector<Block>& blocks, std::int64_t tile_rows) {
  std::vector<Block> tiles;
  for (const Block& b : blocks)
    for (std::int64_t done = 0; done < b.rows; done += tile_rows)
      tiles.push_back({b.expert, b.begin + done, std::min(tile_rows, b.rows - done)});
  std::stable_sort(tiles.begin(), tiles.end(), [](const Block& a, const Block& b) { return a.rows > b.rows; });
  return tiles;
}

// Scratch of `elements` for each thread.
template <class T>
at::Tensor scratch(std::int64_t elements) {
  return fresh({at::get_num_threads(), elements}, at::TensorOptions().dtype(c10::CppTypeToScalarType<T>::value));
}

}  // namespace

std::vector<Block> blocks_of(const std::vector<std::int64_t>& counts_PE, std::int64_t num_experts) {
  std::vector<Block> blocks;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < counts_PE.size(); ++i) {
    if (counts_PE[i] > 0) blocks.push_back({static_cast<std::int64_t>(i) % num_experts, begin, counts_PE[i]});
    begin += counts_PE[i];
  }
  return blocks;
}

template <class T>
void gated_forward(const GatedWeights<T>& w, const std::vector<Block>& blocks, const T* x_RD, const T* scores_R,
                   const T* residual_RD, T* gate_up_R2F, T* out_RD) {
  const std::int64_t hidden = w.hidden, ffn = w.ffn;
  const std::int64_t tile_rows = tile_rows_for(blocks);
  const std::vector<Block> tiles = tiles_of(blocks, tile_rows);
  const at::Tensor active = scratch<T>(tile_rows * ffn);
  const at::Tensor gate_up = gate_up_R2F == nullptr ? scratch<T>(tile_rows * 2 * ffn) : at::Tensor();
  parallel_tasks(static_cast<std::int64_t>(tiles.size()), [&](std::int64_t task, int thread) {
    const Block& t = tiles[static_cast<std::size_t>(task)];
    T* pre = gate_up_R2F != nullptr ? gate_up_R2F + t.begin * 2 * ffn
                                    : gate_up.mutable_data_ptr<T>() + thread * tile_rows * 2 * ffn;
    T* act = active.mutable_data_ptr<T>() + thread * tile_rows * ffn;
    gemm<T>(t.rows, 2 * ffn, hidden, {x_RD + t.begin * hidden, hidden},
            {w.gate_up + t.expert * 2 * ffn * hidden, hidden, true}, T(0), pre, 2 * ffn);
    activate(t.rows, ffn, pre, scores_R == nullptr ? nullptr : scores_R + t.begin, act);
    T* out = out_RD + t.begin * hidden;
    if (residual_RD != nullptr)
      std::memcpy(out, residual_RD + t.begin * hidden, sizeof(T) * static_cast<std::size_t>(t.rows * hidden));
    gemm<T>(t.rows, hidden, ffn, {act, ffn}, {w.down + t.expert * hidden * ffn, ffn, true},
            residual_RD == nullptr ? T(0) : T(1), out, hidden);
  });
}

template <class T>
void gated_backward_input(const GatedWeights<T>& w, const std::vector<Block>& blocks, const T* scores_R, T* gate_up_R2F,
                          const T* dout_RD, const GatedInputGradients<T>& gradients) {
  const std::int64_t hidden = w.hidden, ffn = w.ffn;
  const std::vector<Block> tiles = tiles_of(blocks, tile_rows_for(blocks));
  parallel_tasks(static_cast<std::int64_t>(tiles.size()), [&](std::int64_t task, int) {
    const Block& t = tiles[static_cast<std::size_t>(task)];
    T *act = gradients.active_RF + t.begin * ffn, *pre = gate_up_R2F + t.begin * 2 * ffn;
    gemm<T>(t.rows, ffn, hidden, {dout_RD + t.begin * hidden, hidden}, {w.down + t.expert * hidden * ffn, ffn}, T(0),
            act, ffn);
    activate_backward(t.rows, ffn, pre, scores_R == nullptr ? nullptr : scores_R + t.begin, act,
                      gradients.scores_R == nullptr ? nullptr : gradients.scores_R + t.begin);
    gemm<T>(t.rows, hidden, 2 * ffn, {pre, 2 * ffn}, {w.gate_up + t.expert * 2 * ffn * hidden, hidden}, T(0),
            gradients.x_RD + t.begin * hidden, hidden);
  });
}

template <class T>
void gated_backward_weight(const GatedWeights<T>& w, const std::vector<Block>& blocks, const T* x_RD,
                           const T* dgate_up_R2F, const T* active_RF, const T* dout_RD, T* gate_up, T* down) {
  const std::int64_t hidden = w.hidden, ffn = w.ffn;
  // A task has a strip of one expert's matrix and adds all of that expert's blocks.
  std::vector<std::vector<Block>> by_expert(static_cast<std::size_t>(w.num_experts));
  for (const Block& b : blocks) by_expert[static_cast<std::size_t>(b.expert)].push_back(b);
  const Tiles strips(2 * ffn + hidden, 128);
  parallel_tasks(w.num_experts * strips.count, [&](std::int64_t task, int) {
    const std::int64_t expert = task / strips.count, begin = strips.begin(task % strips.count),
                       end = begin + strips.length(task % strips.count);
    for (const Block& b : by_expert[static_cast<std::size_t>(expert)]) {
      // Rows of the two matrices as if they lay below each other: first gate_up's 2F, then down's D.
      if (begin < 2 * ffn)
        accumulate_tn_part(b.rows, begin, std::min(end, 2 * ffn) - begin, hidden, dgate_up_R2F + b.begin * 2 * ffn,
                           2 * ffn, x_RD + b.begin * hidden, gate_up + expert * 2 * ffn * hidden);
      if (end > 2 * ffn) {
        const std::int64_t first = std::max<std::int64_t>(begin - 2 * ffn, 0);
        accumulate_tn_part(b.rows, first, end - 2 * ffn - first, ffn, dout_RD + b.begin * hidden, hidden,
                           active_RF + b.begin * ffn, down + expert * hidden * ffn);
      }
    }
  });
}

#define INSTANTIATE(T)                                                                                                \
  template void gated_forward<T>(const GatedWeights<T>&, const std::vector<Block>&, const T*, const T*, const T*, T*, \
                                 T*);                                                                                 \
  template void gated_backward_input<T>(const GatedWeights<T>&, const std::vector<Block>&, const T*, T*, const T*,    \
                                        const GatedInputGradients<T>&);                                               \
  template void gated_backward_weight<T>(const GatedWeights<T>&, const std::vector<Block>&, const T*, const T*,       \
                                         const T*, const T*, T*, T*);
INSTANTIATE(float)
INSTANTIATE(double)

}  // namespace trireme::nn::cpu
