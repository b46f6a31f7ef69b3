// Rows to experts and back, without atomics: every output row is a sum in the order of its slots.
// Legend: T tokens, K top-k, R = T * K rows, D hidden.
#pragma once
#include <cstdint>

namespace trireme::nn::cpu {

// rows[i] = x[order[i] / K].
template <class T>
void gather_rows(std::int64_t rows, std::int64_t hidden, std::int64_t top_k, const std::int64_t* order, const T* x,
                 T* out);

// out[t] = residual[t] + shared[t] + sum_k rows[inverse[t * K + k]] for tokens [begin, end), inside a task. residual
// and shared may be null.
void sum_slots(std::int64_t begin, std::int64_t end, std::int64_t hidden, std::int64_t top_k,
               const std::int64_t* inverse, const float* rows, const float* residual, const float* shared, float* out);
void sum_slots(std::int64_t begin, std::int64_t end, std::int64_t hidden, std::int64_t top_k,
               const std::int64_t* inverse, const double* rows, const double* residual, const double* shared,
               double* out);

}  // namespace trireme::nn::cpu
