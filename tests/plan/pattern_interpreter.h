// Moves tokens by a pattern in the plainest way, to hold patterns against the definition of an all-to-all and to count
// the rows of their messages. Rows are sets of (token, slot) pairs with a number for contents.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "plan/all_to_all/pattern.h"

namespace trireme::plan::testing {

struct Row {
  int source = 0, token = 0, slot = 0;
  auto operator<=>(const Row&) const = default;
};

using Slots = std::vector<std::vector<std::vector<int>>>;  // destination by member, token, slot

// Rows that crossed from a member to another.
using Crossed = std::map<std::pair<int, int>, std::int64_t>;

class Interpreter {
 public:
  Interpreter(const Pattern& pattern, const Slots& slots) : p_(pattern), slots_(slots) {}

  // Dispatch: what each member ends with, and whence each row's contents came (must be its own token's number).
  std::vector<std::map<Row, double>> dispatch(const std::vector<std::vector<double>>& value) {
    // held[m]: rows that m answers for. Contents are per row: copying a token gives each slot's row the token's number.
    std::vector<std::map<Row, double>> held(slots_.size());
    for_each_row([&](const Row& r) { held[index(r.source)][r] = value[index(r.source)][index(r.token)]; });
    run(held, [&](const Parcel& parcel, std::map<Row, double>& from, std::map<Row, double>& to) {
      std::set<std::pair<int, int>> tokens;
      std::int64_t rows = 0;
      for (auto it = from.begin(); it != from.end();) {
        if (!parcel.sources.contains(it->first.source) || !parcel.destinations.contains(host(it->first))) {
          ++it;
          continue;
        }
        if (!to.emplace(*it).second) throw std::logic_error("a row arrives twice");
        tokens.emplace(it->first.source, it->first.token);
        ++rows;
        it = from.erase(it);
      }
      if (parcel.rows == Rows::once) rows = static_cast<std::int64_t>(tokens.size());
      if (parcel.rows == Rows::all) rows = static_cast<std::int64_t>(slots_[index(parcel.sources.first)].size());
      return rows;
    });
    return held;
  }

  // Combine: hosts hold a number for each row; the sources end with sums by token. Partial sums know their rows.
  struct Partial {
    std::set<int> slots;
    double sum = 0;
  };
  std::vector<std::vector<double>> combine(const std::map<Row, double>& result) {
    using Key = std::tuple<int, int, int>;  // source, token, first slot: of a partial sum
    std::vector<std::map<Key, Partial>> held(slots_.size());
    for_each_row([&](const Row& r) { held[index(host(r))][{r.source, r.token, r.slot}] = {{r.slot}, result.at(r)}; });
    run(held, [&](const Parcel& parcel, std::map<Key, Partial>& from, std::map<Key, Partial>& to) {
      std::map<std::pair<int, int>, Partial> sums;
      std::int64_t rows = 0;
      for (auto it = from.begin(); it != from.end();) {
        const auto [source, token, slot] = it->first;
        const auto inside = [&](int s) { return parcel.sources.contains(host({source, token, s})); };
        if (!parcel.destinations.contains(source) || !inside(slot)) {
          ++it;
          continue;
        }
        for (const int s : it->second.slots)
          if (!inside(s)) throw std::logic_error("a sum holds rows of a host outside its parcel");
        ++rows;
        if (parcel.rows == Rows::each) {
          if (!to.emplace(*it).second) throw std::logic_error("a partial sum arrives twice");
        } else {
          Partial& sum = sums[{source, token}];
          sum.slots.insert(it->second.slots.begin(), it->second.slots.end());
          sum.sum += it->second.sum;
        }
        it = from.erase(it);
      }
      for (auto& [key, partial] : sums) {
        const int first = *partial.slots.begin();
        if (!to.emplace(Key{key.first, key.second, first}, std::move(partial)).second)
          throw std::logic_error("a sum arrives twice");
      }
      if (parcel.rows == Rows::once) rows = static_cast<std::int64_t>(sums.size());
      if (parcel.rows == Rows::all) rows = static_cast<std::int64_t>(slots_[index(parcel.destinations.first)].size());
      return rows;
    });
    std::vector<std::vector<double>> out(slots_.size());
    for (std::size_t s = 0; s < slots_.size(); ++s) {
      out[s].assign(slots_[s].size(), 0);
      std::set<std::pair<int, int>> seen;
      for (const auto& [key, partial] : held[s]) {
        const auto [source, token, slot] = key;
        if (source != static_cast<int>(s)) throw std::logic_error("a sum ends with another member");
        for (const int r : partial.slots)
          if (!seen.emplace(token, r).second) throw std::logic_error("a row is summed twice");
        out[s][index(token)] += partial.sum;
      }
      std::size_t expected = 0;
      for (const auto& token : slots_[s]) expected += token.size();
      if (seen.size() != expected) throw std::logic_error("a row is missing from the sums");
    }
    return out;
  }

  const Crossed& crossed() const { return crossed_; }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  int host(const Row& r) const { return slots_[index(r.source)][index(r.token)][index(r.slot)]; }

  template <class Do>
  void for_each_row(Do&& act) const {
    for (int s = 0; s < p_.size; ++s)
      for (int t = 0; t < static_cast<int>(slots_[index(s)].size()); ++t)
        for (int k = 0; k < static_cast<int>(slots_[index(s)][index(t)].size()); ++k) act(Row{s, t, k});
  }

  // A phase takes what lay on its member when it began: what comes in during it is added behind.
  template <class Held, class Move>
  void run(Held& held, Move&& move) {
    for (const Phase& phase : p_.phases) {
      Held arrived(held.size());
      for (const Transfer& t : phase.transfers)
        for (const Parcel& parcel : t.parcels) {
          const std::int64_t rows = move(parcel, held[index(t.from)], arrived[index(t.to)]);
          if (t.from != t.to) crossed_[{t.from, t.to}] += rows;
        }
      for (std::size_t m = 0; m < held.size(); ++m)
        for (auto& [key, contents] : arrived[m])
          if (!held[m].emplace(key, contents).second) throw std::logic_error("a row is held twice");
    }
  }

  const Pattern& p_;
  const Slots& slots_;
  Crossed crossed_;
};

}  // namespace trireme::plan::testing
