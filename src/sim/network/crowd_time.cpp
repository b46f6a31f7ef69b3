#include "sim/network/crowd_time.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/errors.h"

namespace trireme::sim {
namespace {

using plan::NodeShape;
using plan::Pattern;
using plan::Reach;

enum Kind { messages, port, card, uplink, num_kinds };
const std::array<const char*, num_kinds> kind_names{"messages", "node port", "network card", "uplink"};

// Seconds of work of every resource, each way where it has two.
struct Load {
  std::vector<double> member;  // messages, both ways together: one thread
  std::vector<double> port_out, port_in, card_out, card_in, uplink_out, uplink_in;
  Load(std::size_t members, std::size_t cards, std::size_t groups)
      : member(members),
        port_out(members),
        port_in(members),
        card_out(cards),
        card_in(cards),
        uplink_out(groups),
        uplink_in(groups) {}
};

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
        total_(period_, nodes_ * cards(), groups_) {}

  PatternTime run() {
    PatternTime out;
    std::vector<std::vector<double>> end(p_.phases.size());
    out.phases.resize(p_.phases.size());
    for (const std::size_t i : order_of_issue()) {
      const plan::Phase& phase = p_.phases[i];
      std::vector<double> start(period_, 0), finish(period_, 0);
      for (std::size_t m = 0; m < period_; ++m)
        for (const int before : phase.after) start[m] = std::max(start[m], end[static_cast<std::size_t>(before)][m]);
      run(phase, start, finish);
      PhaseTime time{.name = phase.name};
      time.begin_s = *std::max_element(start.begin(), start.end());
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
    const auto busiest = std::max_element(most.begin(), most.end());
    out.busiest = latency_ > *busiest ? "latency" : kind_names[static_cast<std::size_t>(busiest - most.begin())];
    out.seconds = std::max(out.seconds, *busiest);
    return out;
  }

 private:
  // As comm/pattern_messages issues them: phases that others wait for first. A member has one processor for all.
  std::vector<std::size_t> order_of_issue() const {
    const std::size_t n = p_.phases.size();
    std::vector<char> awaited(n, 0), done(n, 0);
    for (const plan::Phase& phase : p_.phases)
      for (const int before : phase.after) awaited[static_cast<std::size_t>(before)] = 1;
    std::vector<std::size_t> order;
    while (order.size() < n) {
      std::size_t next = n;
      for (std::size_t i = 0; i < n; ++i) {
        const auto& after = p_.phases[i].after;
        const bool ready =
            std::all_of(after.begin(), after.end(), [&](int b) { return done[static_cast<std::size_t>(b)]; });
        if (!done[i] && ready && (next == n || (awaited[i] && !awaited[next]))) next = i;
      }
      TRIREME_CHECK(next < n, "{}: a phase waits for itself", p_.name);
      done[next] = 1;
      order.push_back(next);
    }
    return order;
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

  // Messages that a member has under way at one time, on the node and off it.
  std::vector<std::array<int, 2>> under_way(const plan::Phase& phase) const {
    std::vector<std::array<int, 2>> out(period_, {0, 0});
    for (const plan::Transfer& t : phase.transfers)
      if (t.from != t.to) ++out[folded(t.from)][shape_.reach(t.from, t.to) == Reach::node ? 0 : 1];
    if (phase.in_flight > 0)
      for (auto& member : out)
        for (int& n : member) n = std::min(n, phase.in_flight);
    return out;
  }

  // A member's own work and that of wires, from the same start.
  static double together(double own_s, double wires_s, double blend) {
    const double more = std::max(own_s, wires_s), less = std::min(own_s, wires_s);
    return blend > 0 && more > 0 ? more * std::pow(1 + std::pow(less / more, blend), 1 / blend) : more;
  }

  void run(const plan::Phase& phase, std::vector<double>& start, std::vector<double>& finish) {
    Load load(period_, nodes_ * cards(), groups_);
    std::vector<double> waits(period_, 0), latency(period_, 0), own_latency(period_, 0), sender_start(start),
        own_out(period_, 0), own_in(period_, 0);
    std::vector<std::array<char, 4>> touches(period_, {0, 0, 0, 0});
    const auto messages = under_way(phase);
    for (const plan::Transfer& t : phase.transfers) {
      if (t.from == t.to) continue;
      double rows = 0;
      for (const plan::Parcel& parcel : t.parcels) rows += plan::rows_of(parcel, p_.flow, counts_);
      if (rows <= 0) continue;  // no message
      const Reach reach = shape_.reach(t.from, t.to);
      const Wire& wire = fabric_.wire(reach);
      const std::size_t from = folded(t.from), to = folded(t.to);
      const int from_member = static_cast<int>(from), to_member = static_cast<int>(to);
      const double seconds = rows * row_bytes_ / wire.rate(messages[from][reach == Reach::node ? 0 : 1]);
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
      // Bounded: a latency for every in_flight messages, and the member is woken for each; else once.
      const double wake_s = phase.in_flight > 0 ? std::min(wire.wake_s, wire.latency_s) : 0;
      if (phase.in_flight > 0) {
        waits[from] += (wire.latency_s - wake_s) / phase.in_flight;
        load.member[from] += wake_s;
      }
      for (const std::size_t m : {from, to}) {
        latency[m] = std::max(latency[m], wire.latency_s - wake_s);
        own_latency[m] = std::max(own_latency[m], wire.own_latency * (wire.latency_s - wake_s));
      }
      if (gathered(t))
        for (const std::size_t m : {from, to}) {
          if (fabric_.copy_bytes_per_s > 0) load.member[m] += rows * row_bytes_ / fabric_.copy_bytes_per_s;
          if (tokens_) load.member[m] += fabric_.gather_s / 2;
        }
      sender_start[to] = std::max(sender_start[to], start[from]);
    }
    const Wire& off = fabric_.group;
    if (off.bucket_bytes > 0)
      for (auto* cards_of_way : {&load.card_out, &load.card_in})
        for (double& seconds : *cards_of_way) seconds = std::max(0.0, seconds - off.bucket_bytes / off.rate(1));
    for (std::size_t m = 0; m < period_; ++m) {
      double wires_s = 0;
      const int member = static_cast<int>(m);
      const bool on_node = touches[m][static_cast<std::size_t>(Reach::node)];
      const bool beyond = touches[m][static_cast<std::size_t>(Reach::beyond)];
      const bool off_node = beyond || touches[m][static_cast<std::size_t>(Reach::group)];
      if (on_node) wires_s = std::max({wires_s, load.port_out[m], load.port_in[m]});
      if (off_node) wires_s = std::max({wires_s, load.card_out[card_of(member)], load.card_in[card_of(member)]});
      if (beyond) wires_s = std::max({wires_s, load.uplink_out[group_of(member)], load.uplink_in[group_of(member)]});
      // The member's own work waits for what it has still to do for phases issued before.
      const double late_s = std::max(0.0, free_[m] - sender_start[m]);
      double busy = together(late_s + load.member[m], wires_s, off_node ? off.blend : fabric_.node.blend);
      if (waits[m] > latency[m]) {
        // While it waits its own wires rest. Those of a card are known to work on for others where that was measured.
        const double more_s = waits[m] - latency[m];
        busy = off_node && off.alone_bytes_per_s > 0
                   ? std::max(busy, late_s + more_s + load.member[m] + std::max(own_out[m], own_in[m]))
                   : busy + more_s;
      }
      finish[m] = sender_start[m] + latency[m] + busy;
      load.member[m] += own_latency[m];
      free_[m] = std::max(start[m], free_[m]) + load.member[m];
      latency_ = std::max(latency_, std::max(latency[m], waits[m]));
    }
    const auto add = [](std::vector<double>& to, const std::vector<double>& from) {
      for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
    };
    add(total_.member, load.member);
    add(total_.port_out, load.port_out);
    add(total_.port_in, load.port_in);
    add(total_.card_out, load.card_out);
    add(total_.card_in, load.card_in);
    add(total_.uplink_out, load.uplink_out);
    add(total_.uplink_in, load.uplink_in);
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
  Load total_;
  double latency_ = 0;
};

}  // namespace

PatternTime crowd_time(const Pattern& pattern, const NodeShape& shape, const Fabric& fabric,
                       const plan::RowCounts& counts, double row_bytes, int period) {
  return Evaluation(pattern, shape, fabric, counts, row_bytes, period).run();
}

}  // namespace trireme::sim
