#include "search/layouts/stage_split.h"

#include <algorithm>

#include "base/errors.h"

namespace trireme::search {

namespace {

// Layers of each piece, none above `limit`, filled from one end; false where they don't all fit.
bool fill(const LayerCosts& costs, int pieces, double limit, bool late, std::vector<std::int64_t>& out) {
  const int layers = static_cast<int>(costs.layer_s.size());
  // The piece with the head may be left without layers, no other one where there are layers enough.
  const int wanting = layers >= pieces - 1 ? 1 : 0;
  out.assign(pieces, 0);
  int left = layers;
  for (int i = 0; i < pieces; ++i) {
    const int p = late ? pieces - 1 - i : i;
    double cost = (p == 0 ? costs.first_s : 0) + (p == pieces - 1 ? costs.last_s : 0);
    if (cost > limit) return false;
    // Pieces still to be filled, without the last one, which the head makes full enough.
    const int behind = late ? p : std::max(0, pieces - 2 - p);
    const int fewest = p == pieces - 1 ? 0 : wanting;
    while (left > behind * wanting) {
      const double more = costs.layer_s[late ? left - 1 : layers - left];
      if (cost + more > limit) break;
      cost += more, --left, ++out[p];
    }
    if (out[p] < fewest) return false;
  }
  return left == 0;
}

}  // namespace

double slowest_piece(const LayerCosts& costs, std::span<const std::int64_t> layers) {
  double worst = 0;
  std::size_t layer = 0;
  for (std::size_t p = 0; p < layers.size(); ++p) {
    double cost = (p == 0 ? costs.first_s : 0) + (p + 1 == layers.size() ? costs.last_s : 0);
    for (std::int64_t i = 0; i < layers[p]; ++i) cost += costs.layer_s[layer++];
    worst = std::max(worst, cost);
  }
  return worst;
}

std::vector<std::int64_t> balanced_split(const LayerCosts& costs, int pieces, bool late) {
  TRIREME_CHECK(pieces >= 1);
  double high = costs.first_s + costs.last_s, low = 0;
  for (const double s : costs.layer_s) high += s;
  high *= 1 + 1e-9;
  std::vector<std::int64_t> best, tried;
  TRIREME_CHECK(fill(costs, pieces, high, late, best), "all layers fit without a limit");
  // Each round ends at a cost that a split has, so few rounds do.
  for (int round = 0; round < 60 && high - low > 1e-9 * high; ++round) {
    const double middle = (low + high) / 2;
    if (fill(costs, pieces, middle, late, tried))
      best = tried, high = std::min(middle, slowest_piece(costs, tried) * (1 + 1e-12));
    else
      low = middle;
  }
  return best;
}

}  // namespace trireme::search
