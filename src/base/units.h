// Quantities as strong types: a Bytes is never added to a Seconds. Config keys carry their unit (memory_GiB) and are
// converted once, at the edge.
#pragma once
#include <compare>

namespace trireme {

template <class Tag>
struct Quantity {
  double value = 0;

  constexpr Quantity() = default;
  constexpr explicit Quantity(double v) : value(v) {}
  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity o) { value += o.value; return *this; }
  constexpr Quantity& operator-=(Quantity o) { value -= o.value; return *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value + b.value); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value - b.value); }
  friend constexpr Quantity operator*(Quantity a, double k) { return Quantity(a.value * k); }
  friend constexpr Quantity operator*(double k, Quantity a) { return Quantity(a.value * k); }
  friend constexpr Quantity operator/(Quantity a, double k) { return Quantity(a.value / k); }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value / b.value; }
  // Json: nlohmann::json, which no header needs.
  template <class Json>
  friend void to_json(Json& j, const Quantity& q) { j = q.value; }
  template <class Json>
  friend void from_json(const Json& j, Quantity& q) { q.value = j.template get<double>(); }
};

using Bytes = Quantity<struct BytesTag>;                    // bytes
using Seconds = Quantity<struct SecondsTag>;                // seconds
using Flops = Quantity<struct FlopsTag>;                    // floating-point operations; a multiply-add is two
using BytesPerSecond = Quantity<struct BytesPerSecondTag>;  // bytes / second
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag>;  // operations / second

constexpr Seconds operator/(Bytes b, BytesPerSecond r) { return Seconds(b.value / r.value); }
constexpr Seconds operator/(Flops f, FlopsPerSecond r) { return Seconds(f.value / r.value); }

inline constexpr double KiB = 1024.0, MiB = 1024.0 * KiB, GiB = 1024.0 * MiB;
inline constexpr double GBps = 1e9;  // as in keys such as bandwidth_GBps

}  // namespace trireme
