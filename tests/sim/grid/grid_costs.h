// Costs for tests: every cell alike, or all random.
#pragma once
#include <random>

#include "sim/grid/simulate_grid.h"

namespace trireme::sim {

struct SlotSeconds {
  double forward = 1, input_gradient = 1, weight_gradient = 1, pair = -1, send = 0;
};

// A backward takes what its two halves take; `pair` < 0: the sum of both.
inline GridCosts equal_costs(const plan::Schedule& s, const SlotSeconds& t = {}) {
  const std::size_t cells = static_cast<std::size_t>(s.num_stages) * s.num_chunks;
  GridCosts c;
  c.forward_s.assign(cells, t.forward);
  c.backward_s.assign(cells, t.input_gradient + t.weight_gradient);
  c.input_gradient_s.assign(cells, t.input_gradient);
  c.weight_gradient_s.assign(cells, t.weight_gradient);
  if (t.pair >= 0) c.pair_s.assign(cells * s.num_chunks, t.pair);
  c.forward_send_s.assign(cells, t.send);
  c.backward_send_s.assign(cells, t.send);
  return c;
}

inline GridCosts random_costs(const plan::Schedule& s, std::mt19937& rng, bool by_micro_batch) {
  std::uniform_real_distribution<double> seconds(0, 2);
  const std::size_t cells = static_cast<std::size_t>(s.num_stages) * s.num_chunks;
  const auto fill = [&](std::size_t entries) {
    std::vector<double> out(entries * (by_micro_batch ? s.num_micro_batches : 1));
    for (double& v : out) v = seconds(rng);
    return out;
  };
  GridCosts c;
  for (auto* values :
       {&c.forward_s, &c.backward_s, &c.input_gradient_s, &c.weight_gradient_s, &c.forward_send_s, &c.backward_send_s})
    *values = fill(cells);
  c.pair_s = fill(cells * s.num_chunks);
  c.pair_input_s = fill(cells * s.num_chunks);
  c.sends = static_cast<SendMode>(std::uniform_int_distribution<int>(0, 1)(rng));
  return c;
}

}  // namespace trireme::sim
