#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "plan/all_to_all/pattern.h"

namespace trireme::plan {
namespace {

// Where a block is: who answers for it, what of it that member has (all: the tokens themselves), since which phase.
struct Held {
  int by = 0;
  Rows as = Rows::all;
  int since = -1;
};

class Checker {
 public:
  explicit Checker(const Pattern& p)
      : p_(p), held_(static_cast<std::size_t>(p.size) * static_cast<std::size_t>(p.size)) {
    for (int s = 0; s < p.size; ++s)
      for (int d = 0; d < p.size; ++d) at(s, d).by = s;
  }

  std::vector<std::string> run() {
    for (std::size_t i = 0; i < p_.phases.size(); ++i) {
      if (!earlier(static_cast<int>(i))) return out_;
      phase(static_cast<int>(i));
    }
    for (int s = 0; s < p_.size; ++s)
      for (int d = 0; d < p_.size; ++d)
        if (at(s, d).by != d) out_.push_back(fmt::format("block {}>{} ends at {}", s, d, at(s, d).by));
    return out_;
  }

 private:
  Held& at(int s, int d) {
    return held_[static_cast<std::size_t>(s) * static_cast<std::size_t>(p_.size) + static_cast<std::size_t>(d)];
  }

  // All phases before phase i, directly or not.
  bool earlier(int i) {
    before_.clear();
    std::vector<int> open = p_.phases[static_cast<std::size_t>(i)].after;
    while (!open.empty()) {
      const int j = open.back();
      open.pop_back();
      if (j < 0 || j >= i) {
        out_.push_back(fmt::format("phase {}: is after phase {}, which is not an earlier one", i, j));
        return false;
      }
      if (!before_.insert(j).second) continue;
      const auto& more = p_.phases[static_cast<std::size_t>(j)].after;
      open.insert(open.end(), more.begin(), more.end());
    }
    return true;
  }

  bool inside(int first, int last) const { return first >= 0 && last < p_.size; }

  void phase(int i) {
    struct Move {
      int s, d;
      Held to;
    };
    std::vector<Move> moves;
    std::vector<char> moved(held_.size(), 0);
    std::set<std::pair<int, int>> pairs;
    for (const Transfer& t : p_.phases[static_cast<std::size_t>(i)].transfers) {
      if (!inside(t.from, t.from) || !inside(t.to, t.to)) {
        out_.push_back(fmt::format("phase {}: transfer {} -> {} is outside {} members", i, t.from, t.to, p_.size));
        continue;
      }
      if (!pairs.emplace(t.from, t.to).second)
        out_.push_back(fmt::format("phase {}: {} sends {} two messages", i, t.from, t.to));
      for (const Parcel& parcel : t.parcels) {
        const Members &from = parcel.sources, &to = parcel.destinations;
        if (from.count < 1 || to.count < 1 || from.stride < 1 || to.stride < 1 || !inside(from.first, from.last()) ||
            !inside(to.first, to.last())) {
          out_.push_back(fmt::format("phase {}: block {}>{} is outside {} members", i, from.first, to.last(), p_.size));
          continue;
        }
        if (parcel.rows != Rows::each && from.count != 1)
          out_.push_back(fmt::format("phase {}: {} sends tokens of {} sources in one parcel", i, t.from, from.count));
        for (int a = 0; a < from.count; ++a)
          for (int b = 0; b < to.count; ++b) {
            const int s = from[a], d = to[b];
            const Held& held = at(s, d);
            char& seen = moved[static_cast<std::size_t>(&held - held_.data())];
            if (held.by != t.from)
              out_.push_back(fmt::format("phase {}: {} sends block {}>{}, which {} holds", i, t.from, s, d, held.by));
            else if (held.since >= 0 && !before_.contains(held.since))
              out_.push_back(
                  fmt::format("phase {}: {} sends block {}>{}, which phase {} brings", i, t.from, s, d, held.since));
            else if (parcel.rows > held.as)
              out_.push_back(
                  fmt::format("phase {}: {} sends tokens of block {}>{}, of which it has less", i, t.from, s, d));
            else if (seen)
              out_.push_back(fmt::format("phase {}: block {}>{} is sent twice", i, s, d));
            else
              moves.push_back({s, d, {t.to, parcel.rows, i}});
            seen = 1;
          }
      }
    }
    for (const Move& m : moves) at(m.s, m.d) = m.to;
  }

  const Pattern& p_;
  std::vector<Held> held_;
  std::set<int> before_;
  std::vector<std::string> out_;
};

}  // namespace

std::vector<std::string> problems(const Pattern& p) {
  if (p.flow == Flow::combine) {
    // Sums are right where the copies of the transpose are.
    auto found = problems(transpose(p));
    for (std::string& text : found) text = "transposed: " + text;
    return found;
  }
  return Checker(p).run();
}

}  // namespace trireme::plan
