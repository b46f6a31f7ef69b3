// Which layers a piece of the model gets, where the layers and the ends cost differently.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace trireme::search {

struct LayerCosts {
  std::span<const double> layer_s;  // of each layer, forward and backward
  double first_s = 0;               // of the embedding, on the first piece
  double last_s = 0;                // of the head and the MTP blocks, on the last
};

// Layers of each of `pieces` consecutive pieces, such that the slowest piece is as fast as it can be: the fullest early
// ones first, or (`late`) the fullest last. Each piece gets at least one layer where there are as many; the last may
// have none. Cost: layers times the digits of the answer. Linear partition by bisection.
std::vector<std::int64_t> balanced_split(const LayerCosts& costs, int pieces, bool late);

// The cost of the slowest piece.
double slowest_piece(const LayerCosts& costs, std::span<const std::int64_t> layers);

}  // namespace trireme::search
