// Values over shapes, interpolated in log space: a measured curve or grid as a function.
// The rule: at a measured point (each coordinate within 0.1 %) its own value. Else, multilinear in (log coordinates ->
// log value) on the full grid that is left when levels used by fewer than half as many points as the most used level of
// their dimension are dropped; outside it, the value at its edge. Where no full grid is left: the mean of the (up to)
// eight nearest points' logs, each weighted by 1 / distance^2. A power law is reproduced exactly inside a grid.
#pragma once
#include <cstddef>
#include <vector>

namespace trireme::platform {

class LogSurface {
 public:
  LogSurface() = default;
  // coordinates[d][i] is coordinate d of point i. All must be positive; throws std::logic_error otherwise.
  LogSurface(const std::vector<std::vector<double>>& coordinates, const std::vector<double>& values);

  bool empty() const { return values_.empty(); }
  bool is_grid() const { return !grid_.empty(); }
  double at(const std::vector<double>& x) const;  // of the dimensions given at construction

 private:
  double on_grid(const std::vector<double>& x) const;
  double nearest(const std::vector<double>& x) const;

  std::size_t dims_ = 0;
  std::vector<std::vector<double>> points_;  // [i][d], logs
  std::vector<double> values_;               // logs
  std::vector<std::vector<double>> levels_;  // [d], logs, ascending
  std::vector<double> grid_;                 // logs, the last dimension fastest
};

}  // namespace trireme::platform
