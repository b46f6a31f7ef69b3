#include "sim/rates/exchange_table.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace trireme::sim {

ExchangeTable::ExchangeTable(Price price) : price_(std::move(price)) {
  for (auto& point : points_) point.store(-1, std::memory_order_relaxed);
}

double ExchangeTable::seconds(int power) const {
  std::atomic<double>& point = points_[static_cast<std::size_t>(power)];
  if (const double known = point.load(std::memory_order_acquire); known >= 0) return known;
  const double bytes = std::ldexp(1.0, power);
  const ExchangeTime t = price_(bytes);
  outside_s_per_byte_.store(t.outside_s / bytes, std::memory_order_relaxed);
  inside_s_per_byte_.store(t.inside_s / bytes, std::memory_order_relaxed);
  point.store(t.alone_s, std::memory_order_release);
  return t.alone_s;
}

ExchangeTime ExchangeTable::at(double bytes) const {
  if (!price_ || !(bytes > 0)) return {};
  const int power = std::clamp(std::ilogb(bytes), 0, powers - 2);
  const double low_s = seconds(power), part = std::ldexp(bytes, -power) - 1;
  // Below a byte nothing gets shorter.
  const double alone_s = part > 0 ? low_s + (seconds(power + 1) - low_s) * part : low_s;
  return {.alone_s = alone_s, .outside_s = bytes * outside_s_per_byte_.load(std::memory_order_relaxed),
          .inside_s = bytes * inside_s_per_byte_.load(std::memory_order_relaxed)};
}

}  // namespace trireme::sim
