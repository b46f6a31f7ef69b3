#include "platform/log_surface.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/errors.h"

namespace trireme::platform {

namespace {
constexpr double same = 1e-3;  // in natural logs: 0.1 %
}

LogSurface::LogSurface(const std::vector<std::vector<double>>& coordinates, const std::vector<double>& values)
    : dims_(coordinates.size()) {
  for (const auto& column : coordinates)
    TRIREME_CHECK(column.size() == values.size(), "{} coordinates for {} values", column.size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::vector<double> point(dims_);
    for (std::size_t d = 0; d < dims_; ++d) {
      TRIREME_CHECK(coordinates[d][i] > 0, "coordinate {}", coordinates[d][i]);
      point[d] = std::log(coordinates[d][i]);
    }
    TRIREME_CHECK(values[i] > 0, "value {}", values[i]);
    points_.push_back(std::move(point));
    values_.push_back(std::log(values[i]));
  }
  if (values.empty()) return;

  // Levels of each dimension, without those that only extra points use.
  levels_.resize(dims_);
  std::size_t cells = 1;
  for (std::size_t d = 0; d < dims_; ++d) {
    std::map<double, std::size_t> uses;
    for (const auto& p : points_) ++uses[p[d]];
    std::size_t most = 0;
    for (const auto& [level, count] : uses) most = std::max(most, count);
    for (const auto& [level, count] : uses)
      if (2 * count >= most) levels_[d].push_back(level);
    cells *= levels_[d].size();
  }
  if (cells > values_.size()) return;
  std::vector<double> grid(cells);
  std::vector<bool> have(cells, false);
  for (std::size_t i = 0; i < points_.size(); ++i) {
    std::size_t index = 0;
    bool inside = true;
    for (std::size_t d = 0; d < dims_ && inside; ++d) {
      const auto at = std::lower_bound(levels_[d].begin(), levels_[d].end(), points_[i][d]);
      inside = at != levels_[d].end() && *at == points_[i][d];
      index = index * levels_[d].size() + (at - levels_[d].begin());
    }
    if (!inside) continue;
    grid[index] = values_[i];
    have[index] = true;
  }
  if (std::find(have.begin(), have.end(), false) == have.end()) grid_ = std::move(grid);
}

double LogSurface::at(const std::vector<double>& raw) const {
  TRIREME_CHECK(!empty() && raw.size() == dims_, "{} coordinates for a surface of {}", raw.size(), dims_);
  std::vector<double> x(dims_);
  for (std::size_t d = 0; d < dims_; ++d) x[d] = std::log(std::max(raw[d], 1e-9));
  for (std::size_t i = 0; i < points_.size(); ++i) {
    bool hit = true;
    for (std::size_t d = 0; d < dims_ && hit; ++d) hit = std::abs(points_[i][d] - x[d]) < same;
    if (hit) return std::exp(values_[i]);
  }
  return std::exp(is_grid() ? on_grid(x) : nearest(x));
}

double LogSurface::on_grid(const std::vector<double>& x) const {
  std::vector<std::size_t> low(dims_);
  std::vector<double> part(dims_);
  for (std::size_t d = 0; d < dims_; ++d) {
    const auto& levels = levels_[d];
    if (x[d] <= levels.front() || levels.size() == 1) continue;
    if (x[d] >= levels.back()) {
      low[d] = levels.size() - 2;
      part[d] = 1;
      continue;
    }
    low[d] = std::upper_bound(levels.begin(), levels.end(), x[d]) - levels.begin() - 1;
    part[d] = (x[d] - levels[low[d]]) / (levels[low[d] + 1] - levels[low[d]]);
  }
  double sum = 0;
  for (std::size_t corner = 0; corner < (std::size_t{1} << dims_); ++corner) {
    double weight = 1;
    std::size_t index = 0;
    for (std::size_t d = 0; d < dims_; ++d) {
      const bool upper = corner >> d & 1;
      weight *= upper ? part[d] : 1 - part[d];
      index = index * levels_[d].size() + std::min(low[d] + upper, levels_[d].size() - 1);
    }
    if (weight > 0) sum += weight * grid_[index];
  }
  return sum;
}

double LogSurface::nearest(const std::vector<double>& x) const {
  std::vector<std::pair<double, std::size_t>> by_distance;
  for (std::size_t i = 0; i < points_.size(); ++i) {
    double square = 0;
    for (std::size_t d = 0; d < dims_; ++d) square += (points_[i][d] - x[d]) * (points_[i][d] - x[d]);
    by_distance.emplace_back(square, i);
  }
  const std::size_t count = std::min<std::size_t>(8, by_distance.size());
  std::partial_sort(by_distance.begin(), by_distance.begin() + count, by_distance.end());
  double sum = 0, weights = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double weight = 1 / std::max(by_distance[i].first, 1e-12);
    sum += weight * values_[by_distance[i].second];
    weights += weight;
  }
  return sum / weights;
}

}  // namespace trireme::platform
