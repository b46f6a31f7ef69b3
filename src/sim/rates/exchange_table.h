// How long an expert exchange takes by its pattern, as a function of bytes: tabulated, so that a search only scales it.
#pragma once
#include <array>
#include <atomic>
#include <functional>

namespace trireme::sim {

// By itself, and for how long it keeps the links outside and inside of nodes busy: exchanges of two micro-batches
// side by side share these.
struct ExchangeTime {
  double alone_s = 0, outside_s = 0, inside_s = 0;
};

// What of a router the expectation of a pattern's rows depends on.
struct RouterShape {
  int top_k = 1, experts = 1;
  int groups = 1, chosen_groups = 1;  // of experts; of them a token takes all of its experts from
  auto operator<=>(const RouterShape&) const = default;
};

// Seconds are asked at powers of two of bytes, when first needed, and lie on a line between two of them: a latency and a
// part in proportion to bytes, but for where one gives way to the other. Links' work is in proportion to bytes. Shared by
// threads without a lock: whoever is first computes, and all compute the same.
class ExchangeTable {
 public:
  using Price = std::function<ExchangeTime(double bytes)>;
  ExchangeTable() = default;  // of a group of one: nothing takes time
  explicit ExchangeTable(Price price);

  // `bytes`: of a rank's rows, top_k copies of each token.
  ExchangeTime at(double bytes) const;

 private:
  static constexpr int powers = 63;
  double seconds(int power) const;
  Price price_;
  mutable std::atomic<double> outside_s_per_byte_ = 0, inside_s_per_byte_ = 0;  // there before a point is
  mutable std::array<std::atomic<double>, powers> points_;  // below 0: not asked yet
};

}  // namespace trireme::sim
