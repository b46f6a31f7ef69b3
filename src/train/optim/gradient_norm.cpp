#include "train/optim/gradient_norm.h"

#include <algorithm>
#include <array>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include "base/errors.h"

namespace trireme::train {
namespace {

constexpr std::int64_t chunk_elements = 32768;
constexpr int num_lanes = 8;  // independent partial sums: a fixed order that vectorises

struct Chunk {
  at::ScalarType dtype;
  const void* data;
  std::int64_t count;
};

template <class Real>
double chunk_sum(const void* data, std::int64_t count) {
  const Real* x = static_cast<const Real*>(data);
  std::array<double, num_lanes> lanes{};
  const std::int64_t whole = count / num_lanes * num_lanes;
  for (std::int64_t i = 0; i < whole; i += num_lanes) {
    for (int lane = 0; lane < num_lanes; ++lane) {
      const double value = x[i + lane];
      lanes[static_cast<std::size_t>(lane)] += value * value;
    }
  }
  double sum = 0;
  for (double lane : lanes) sum += lane;
  for (std::int64_t i = whole; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

double cpu_sum(const std::vector<Chunk>& chunks) {
  std::vector<double> sums(chunks.size());
  at::parallel_for(0, static_cast<std::int64_t>(chunks.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Chunk& chunk = chunks[static_cast<std::size_t>(i)];
      sums[static_cast<std::size_t>(i)] = chunk.dtype == at::kDouble ? chunk_sum<double>(chunk.data, chunk.count)
                                                                     : chunk_sum<float>(chunk.data, chunk.count);
    }
  });
  double sum = 0;
  for (double part : sums) sum += part;
  return sum;
}

}  // namespace

double sum_of_squares(const std::vector<nn::Parameter*>& parameters, const Ownership& ownership,
                      const plan::FrozenParameters& frozen) {
  at::NoGradGuard no_grad;
  std::vector<Chunk> chunks;
  at::Tensor elsewhere;  // float64 sum on the device, read once at the end
  for (const nn::Parameter* parameter : parameters) {
    const at::Tensor& grad = parameter->grad;
    TRIREME_CHECK(grad.defined() && grad.is_contiguous(), "{}: no gradient is bound", parameter->name);
    TRIREME_CHECK(grad.scalar_type() == at::kFloat || grad.scalar_type() == at::kDouble,
                  "{}: gradients are float32 or float64", parameter->name);
    for (const nn::Piece& piece : parameter->pieces) {
      if (!ownership.owns(*parameter, piece) || (!frozen.empty() && frozen.has(piece.spec.name))) continue;
      const std::int64_t count = piece.spec.count();
      if (!grad.device().is_cpu()) {
        const at::Tensor sum = grad.view({-1}).narrow(0, piece.offset, count).to(at::kDouble).square().sum();
        elsewhere = elsewhere.defined() ? elsewhere + sum : sum;
        continue;
      }
      const char* data = static_cast<const char*>(grad.const_data_ptr()) + piece.offset * grad.element_size();
      for (std::int64_t begin = 0; begin < count; begin += chunk_elements) {
        chunks.push_back(
            {grad.scalar_type(), data + begin * grad.element_size(), std::min(chunk_elements, count - begin)});
      }
    }
  }
  return cpu_sum(chunks) + (elsewhere.defined() ? elsewhere.item<double>() : 0.0);
}

double clip_factor(double norm, double limit) {
  return limit > 0 && norm > limit ? limit / norm : 1.0;
}

}  // namespace trireme::train
