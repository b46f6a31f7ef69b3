#include "sim/network/crowd_time.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/errors.h"
#include "sim/network/crowd_load.h"

namespace trireme::sim {
namespace {

using plan::NodeShape;
using plan::Pattern;
using plan::Reach;

enum Kind { messages, port, card, uplink, num_kinds };
const std::array<const char*, num_kinds> kind_names{"messages", "node port", "network card", "uplink"};

constexpr double never = -1e300;

class Evaluation {
 public:
  // Members are folded onto the first `period`.
  Evaluation(const Pattern& pattern, const NodeShape& shape, const Fabric& fabric, const plan::RowCounts& counts,
             double row_bytes, int period)
      : p_(pattern),
        shape_(shape),
        fabric_(fabric),
        counts_(counts),
        row_bytes_(row_bytes),
        period_(static_cast<std::size_t>(period)),
        nodes_(static_cast<std::size_t>(shape.node(period - 1)) + 1),
        groups_(static_cast<std::size_t>(shape.group(shape.node(period - 1))) + 1),
        tokens_(plan::needs_tokens(pattern)),
        free_(period_, 0),
        total_(period_, nodes_ * cards(), groups_),
        busy_until_(period_, nodes_ * cards(), groups_) {
    for (auto wires : of_wires) (busy_until_.*wires).assign((busy_until_.*wires).size(), never);
  }

  PatternTime run() {
    PatternTime out;
    out.phases.resize(p_.phases.size());
    std::vector<std::vector<double>> start(p_.phases.size()), end(p_.phases.size());
    for (std::size_t done = 0; done < p_.phases.size(); ++done) {
      const std::size_t i = next_phase(start, end);
      const plan::Phase& phase = p_.phases[i];
      std::vector<double> finish(period_, 0);
      run(phase, start[i], finish);
      PhaseTime time{.name = phase.name};
      time.begin_s = *std::max_element(start[i].begin(), start[i].end());
      time.end_s = *std::max_element(finish.begin(), finish.end());
      out.seconds = std::max(out.seconds, time.end_s);
      out.phases[i] = std::move(time);
      end[i] = std::move(finish);
    }
    std::array<double, num_kinds> most{};
    const auto top = [](const std::vector<double>& v) {
      return v.empty() ? 0.0 : *std::max_element(v.begin(), v.end());
    };
    most[messages] = top(total_.member);
    most[port] = std::max(top(total_.port_out), top(total_.port_in));
    most[card] = std::max(top(total_.card_out), top(total_.card_in));
    most[uplink] = std::max(top(total_.uplink_out), top(total_.uplink_in));
    out.inside_s = most[port], out.outside_s = std::max(most[card], most[uplink]);
    const auto busiest = std::max_element(most.begin(), most.end());
    out.busiest = latency_ > *busiest ? "latency" : kind_names[static_cast<std::size_t>(busiest - most.begin())];
    out.seconds = std::max(out.seconds, *busiest);
    return out;
  }

 private:
  // The one that starts first, as comm/pattern_messages issues them: where several start together, one that others wait
  // for. A member has one processor for all. `start` is filled in for phases that can start; `end` is empty where not
  // yet known.
  std::size_t next_phase(std::vector<std::vector<double>>& start, const std::vector<std::vector<double>>& end) const {
    const std::size_t n = p_.phases.size();
    std::vector<char> awaited(n, 0);
    for (const plan::Phase& phase : p_.phases)
      for (const int before : phase.after) awaited[static_cast<std::size_t>(before)] = 1;
    std::size_t next = n;
    double first_s = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const auto& after = p_.phases[i].after;
      if (!end[i].empty() ||
          std::any_of(after.begin(), after.end(), [&](int b) { return end[static_cast<std::size_t>(b)].empty(); }))
        continue;
      if (start[i].empty()) {
        start[i].assign(period_, 0);
        for (std::size_t m = 0; m < period_; ++m)
          for (const int before : after) start[i][m] = std::max(start[i][m], end[static_cast<std::size_t>(before)][m]);
      }
      const double start_s = *std::max_element(start[i].begin(), start[i].end());
      if (next < n && (start_s > first_s || (start_s == first_s && awaited[i] <= awaited[next]))) continue;
      next = i;
      first_s = start_s;
    }
    TRIREME_CHECK(next < n, "{}: a phase waits for itself", p_.name);
    return next;
  }
  // Whether a message's rows lie apart where it is made, and have to be sorted where it arrives.
  bool gathered(const plan::Transfer& t) const {
    return tokens_ || t.parcels.size() > 1 || t.parcels.front().sources.count > 1;
  }

  std::size_t cards() const { return static_cast<std::size_t>(fabric_.cards_per_node); }
  std::size_t folded(int member) const { return static_cast<std::size_t>(member) % period_; }
  std::size_t card_of(int member) const {
    const int node = shape_.node(member);
    const auto local = static_cast<std::size_t>(shape_.local(member)),
               ranks = static_cast<std::size_t>(shape_.ranks(node));
    return static_cast<std::size_t>(node) * cards() + local * std::min(cards(), ranks) / ranks;
  }

  // Messages that a member sends, on the node and off it.
  std::vector<std::array<int, 2>> num_messages(const plan::Phase& phase) const {
    std::vector<std::array<int, 2>> out(period_, {0, 0});
    for (const plan::Transfer& t : phase.transfers)
      if (t.from != t.to) ++out[folded(t.from)][shape_.reach(t.from, t.to) == Reach::node ? 0 : 1];
    return out;
  }

  // The wires that a member's messages of a phase cross.
  template <class Act>
  void for_each_wire(std::size_t m, const std::array<char, 4>& touches, Act&& act) const {
    const int member = static_cast<int>(m);
    const bool beyond = touches[static_cast<std::size_t>(Reach::beyond)];
    const auto both_ways = [&](std::size_t first, std::size_t index) {
      act(of_wires[first], index);
      act(of_wires[first + 1], index);
    };
    if (touches[static_cast<std::size_t>(Reach::node)]) both_ways(0, m);
    if (beyond || touches[static_cast<std::size_t>(Reach::group)]) both_ways(2, card_of(member));
    if (beyond) both_ways(4, group_of(member));
  }

  // What the bucket of a card holds where it rested before is not waited for. A wire begins with the last member that
  // uses it.
  void take_from_buckets(CrowdLoad& load, const CrowdLoad& begin) const {
    const Wire& off = fabric_.group;
    if (off.bucket_bytes <= 0) return;
    const double full_s = off.bucket_bytes / off.rate(1);
    for (auto wires : {&CrowdLoad::card_out, &CrowdLoad::card_in})
      for (std::size_t i = 0; i < (load.*wires).size(); ++i) {
        const double rested_s = (begin.*wires)[i] - (busy_until_.*wires)[i];
        double& seconds = (load.*wires)[i];
        seconds = std::max(0.0, seconds - std::clamp(rested_s, 0.0, full_s));
      }
  }

  // A member's own work and that of wires, from the same start.
  static double together(double own_s, double wires_s, double blend) {
    const double more = std::max(own_s, wires_s), less = std::min(own_s, wires_s);
    return blend > 0 && more > 0 ? more * std::pow(1 + std::pow(less / more, blend), 1 / blend) : more;
  }

  void run(const plan::Phase& phase, const std::vector<double>& start, std::vector<double>& finish) {
    CrowdLoad load(period_, nodes_ * cards(), groups_), begin = load;
    std::vector<double> turns(period_, 0), longest_turn(period_, 0), latency(period_, 0), own_latency(period_, 0),
        sender_start(start), own_out(period_, 0), own_in(period_, 0);
    std::vector<std::array<char, 4>> touches(period_, {0, 0, 0, 0});
    const auto messages = num_messages(phase);
    for (const plan::Transfer& t : phase.transfers) {
      if (t.from == t.to) continue;
      double rows = 0;
      for (const plan::Parcel& parcel : t.parcels) rows += plan::rows_of(parcel, p_.flow, counts_);
      if (rows <= 0) continue;  // no message
      const Reach reach = shape_.reach(t.from, t.to);
      const Wire& wire = fabric_.wire(reach);
      const std::size_t from = folded(t.from), to = folded(t.to);
      const int from_member = static_cast<int>(from), to_member = static_cast<int>(to);
      const int of_reach = messages[from][reach == Reach::node ? 0 : 1], all = messages[from][0] + messages[from][1];
      const int window = phase.in_flight > 0 && phase.in_flight < all ? phase.in_flight : all;
      const double seconds = rows * row_bytes_ / wire.rate(std::min(of_reach, window));
      load.member[from] += wire.message_s / 2;
      load.member[to] += wire.message_s / 2;
      if (reach == Reach::node) {
        load.port_out[from] += seconds;
        load.port_in[to] += seconds;
      } else {
        load.card_out[card_of(from_member)] += seconds;
        load.card_in[card_of(to_member)] += seconds;
      }
      own_out[from] += seconds;
      own_in[to] += seconds;
      if (reach == Reach::beyond && fabric_.uplink_bytes_per_s > 0) {
        load.uplink_out[group_of(from_member)] += rows * row_bytes_ / fabric_.uplink_bytes_per_s;
        load.uplink_in[group_of(to_member)] += rows * row_bytes_ / fabric_.uplink_bytes_per_s;
      }
      touches[from][static_cast<std::size_t>(reach)] = touches[to][static_cast<std::size_t>(reach)] = 1;
      // One message behind another phase is a step of a chain too: it waits for its own partner only.
      const bool step = all == 1 && !phase.after.empty();
      if (window < all || step) {
        turns[from] += wire.turn_s / window;
        longest_turn[from] = std::max(longest_turn[from], wire.turn_s);
        load.member[from] += wire.wake_s;
      }
      const double latency_s = step ? wire.turn_s : wire.latency_s;
      for (const std::size_t m : {from, to}) {
        latency[m] = std::max(latency[m], latency_s);
        own_latency[m] = std::max(own_latency[m], wire.own_latency * latency_s);
      }
      if (gathered(t))
        for (const std::size_t m : {from, to}) {
          if (fabric_.copy_bytes_per_s > 0) load.member[m] += rows * row_bytes_ / fabric_.copy_bytes_per_s;
          if (tokens_) load.member[m] += fabric_.gather_s / 2;
        }
      sender_start[to] = std::max(sender_start[to], start[from]);
    }
    for (std::size_t m = 0; m < period_; ++m)
      for_each_wire(m, touches[m], [&](auto wires, std::size_t i) {
        (begin.*wires)[i] = std::max((begin.*wires)[i], sender_start[m]);
      });
    take_from_buckets(load, begin);
    for (std::size_t m = 0; m < period_; ++m) {
      double wires_s = 0;
      for_each_wire(m, touches[m], [&](auto wires, std::size_t i) {
        const double wait_s = std::max(0.0, (busy_until_.*wires)[i] - sender_start[m]);
        if ((load.*wires)[i] > 0) wires_s = std::max(wires_s, wait_s + (load.*wires)[i]);
      });
      const double blend =
          touches[m][static_cast<std::size_t>(Reach::group)] || touches[m][static_cast<std::size_t>(Reach::beyond)]
              ? fabric_.group.blend
              : fabric_.node.blend;
      // The member's own work waits for what it has still to do for phases issued before.
      const double late_s = std::max(0.0, free_[m] - sender_start[m]), own_s = late_s + load.member[m];
      double busy = together(own_s, wires_s, blend);
      if (const double more_s = turns[m] - longest_turn[m]; more_s > 0) {
        // While it waits its own wires rest; a card works on for others.
        const double own_wires_s = std::max(own_out[m], own_in[m]);
        busy = std::max(busy, blend > 0 ? together(own_s + more_s, own_wires_s, blend)
                                        : more_s + together(own_s, own_wires_s, blend));
      }
      finish[m] = sender_start[m] + latency[m] + busy;
      load.member[m] += own_latency[m];
      free_[m] = std::max(start[m], free_[m]) + load.member[m];
      latency_ = std::max(latency_, std::max(latency[m], turns[m]));
    }
    for (auto wires : of_wires)
      for (std::size_t i = 0; i < (load.*wires).size(); ++i)
        if ((load.*wires)[i] > 0)
          (busy_until_.*wires)[i] = std::max((busy_until_.*wires)[i], (begin.*wires)[i]) + (load.*wires)[i];
    total_ += load;
  }

  std::size_t group_of(int member) const { return static_cast<std::size_t>(shape_.group(shape_.node(member))); }

  const Pattern& p_;
  const NodeShape& shape_;
  const Fabric& fabric_;
  const plan::RowCounts& counts_;
  double row_bytes_;
  std::size_t period_, nodes_, groups_;
  bool tokens_;
  std::vector<double> free_;  // when a member's processor is free
  CrowdLoad total_, busy_until_;
  double latency_ = 0;
};

}  // namespace

PatternTime crowd_time(const Pattern& pattern, const NodeShape& shape, const Fabric& fabric,
                       const plan::RowCounts& counts, double row_bytes, int period) {
  return Evaluation(pattern, shape, fabric, counts, row_bytes, period).run();
}

}  // namespace trireme::sim
