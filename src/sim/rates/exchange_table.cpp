#include "sim/rates/exchange_table.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace trireme::sim {

namespace {
constexpr int reference = 20;  // a power where links' work is asked
}  // namespace

ExchangeTable::ExchangeTable(Price price) : price_(std::move(price)) {
  for (auto& point : points_) point.store(-1, std::memory_order_relaxed);
  const double bytes = std::ldexp(1.0, reference);
  const ExchangeTime t = price_(bytes);
  outside_s_per_byte_ = t.outside_s / bytes, inside_s_per_byte_ = t.inside_s / bytes;
  points_[reference].store(t.alone_s, std::memory_order_relaxed);
}

double ExchangeTable::seconds(int power) const {
  std::atomic<double>& point = points_[static_cast<std::size_t>(power)];
  double s = point.load(std::memory_order_relaxed);
  if (s < 0) point.store(s = price_(std::ldexp(1.0, power)).alone_s, std::memory_order_relaxed);
  return s;
}

ExchangeTime ExchangeTable::at(double bytes) const {
  if (!price_ || !(bytes > 0)) return {};
  const int power = std::clamp(std::ilogb(bytes), 0, powers - 2);
  const double low_s = seconds(power), part = std::ldexp(bytes, -power) - 1;
  // Below a byte nothing gets shorter.
  const double alone_s = part > 0 ? low_s + (seconds(power + 1) - low_s) * part : low_s;
  return {.alone_s = alone_s, .outside_s = bytes * outside_s_per_byte_, .inside_s = bytes * inside_s_per_byte_};
}

}  // namespace trireme::sim
