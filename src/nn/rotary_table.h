// Cosines and sines of the rotary angles for positions from 0, grown as needed; computed in float64, then rounded.
#pragma once
#include <ATen/ATen.h>

#include <algorithm>

namespace trireme::nn {

struct RotaryTable {
  double theta = 10000.0;
  std::int64_t head_dim = 0;
  at::ScalarType dtype = at::kFloat;
  at::Tensor cosine;  // (positions, head_dim / 2)
  at::Tensor sine;

  const RotaryTable& up_to(std::int64_t last_position) {
    if (cosine.defined() && cosine.size(0) > last_position) return *this;
    // Twice what it was at least: a sequence that grows by single tokens computes each angle a few times, not every time.
    const std::int64_t half = head_dim / 2, before = cosine.defined() ? cosine.size(0) : 0;
    const std::int64_t positions = std::max<std::int64_t>({last_position + 1, 2 * before, 256});
    const auto doubles = at::TensorOptions().dtype(at::kDouble);
    const at::Tensor frequency = at::pow(theta, at::arange(half, doubles) * (-1.0 / static_cast<double>(half)));
    const at::Tensor angle = at::arange(positions, doubles).unsqueeze(1) * frequency;
    cosine = angle.cos().to(dtype);
    sine = angle.sin().to(dtype);
    return *this;
  }
};

}  // namespace trireme::nn
