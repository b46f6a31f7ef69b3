#include "sim/network/pattern_time.h"

#include <algorithm>
#include <array>

#include "base/errors.h"
#include "plan/all_to_all/generators.h"

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
        total_(period_, nodes_ * cards(), groups_) {}

  PatternTime run() {
    PatternTime out;
    std::vector<std::vector<double>> end;
    for (const plan::Phase& phase : p_.phases) {
      std::vector<double> start(period_, 0), finish(period_, 0);
      for (std::size_t m = 0; m < period_; ++m)
        for (const int before : phase.after) start[m] = std::max(start[m], end[static_cast<std::size_t>(before)][m]);
      run(phase, start, finish);
      PhaseTime time{.name = phase.name};
      time.begin_s = *std::max_element(start.begin(), start.end());
      time.end_s = *std::max_element(finish.begin(), finish.end());
      out.seconds = std::max(out.seconds, time.end_s);
      out.phases.push_back(time);
      end.push_back(std::move(finish));
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
  std::size_t cards() const { return static_cast<std::size_t>(fabric_.cards_per_node); }
  std::size_t folded(int member) const { return static_cast<std::size_t>(member) % period_; }
  std::size_t card_of(int member) const {
    const int node = shape_.node(member);
    const auto local = static_cast<std::size_t>(shape_.local(member)),
               ranks = static_cast<std::size_t>(shape_.ranks(node));
    return static_cast<std::size_t>(node) * cards() + local * std::min(cards(), ranks) / ranks;
  }

  void run(const plan::Phase& phase, std::vector<double>& start, std::vector<double>& finish) {
    Load load(period_, nodes_ * cards(), groups_);
    std::vector<double> latency(period_, 0), from_others(period_, 0), sender_start(start);
    std::vector<int> sends(period_, 0);
    std::vector<std::array<char, 4>> touches(period_, {0, 0, 0, 0});
    for (const plan::Transfer& t : phase.transfers) {
      if (t.from == t.to) continue;
      double rows = 0;
      for (const plan::Parcel& parcel : t.parcels) rows += plan::rows_of(parcel, p_.flow, counts_);
      if (rows <= 0) continue;  // no message
      const Reach reach = shape_.reach(t.from, t.to);
      const Wire& wire = fabric_.wire(reach);
      const std::size_t from = folded(t.from), to = folded(t.to);
      const int from_member = static_cast<int>(from), to_member = static_cast<int>(to);
      const double seconds = rows * row_bytes_ / wire.bytes_per_s;
      load.member[from] += wire.message_s / 2;
      load.member[to] += wire.message_s / 2;
      if (reach == Reach::node) {
        load.port_out[from] += seconds;
        load.port_in[to] += seconds;
      } else {
        load.card_out[card_of(from_member)] += seconds;
        load.card_in[card_of(to_member)] += seconds;
      }
      if (reach == Reach::beyond && fabric_.uplink_bytes_per_s > 0) {
        load.uplink_out[group_of(from_member)] += rows * row_bytes_ / fabric_.uplink_bytes_per_s;
        load.uplink_in[group_of(to_member)] += rows * row_bytes_ / fabric_.uplink_bytes_per_s;
      }
      touches[from][static_cast<std::size_t>(reach)] = touches[to][static_cast<std::size_t>(reach)] = 1;
      ++sends[from];
      // Bounded: a latency for every in_flight messages; else once.
      if (phase.in_flight > 0)
        latency[from] += wire.latency_s / phase.in_flight;
      else
        latency[from] = std::max(latency[from], wire.latency_s);
      from_others[to] = std::max(from_others[to], wire.latency_s);
      sender_start[to] = std::max(sender_start[to], start[from]);
    }
    for (std::size_t m = 0; m < period_; ++m) {
      latency[m] = std::max(latency[m], from_others[m]);
      double busy = load.member[m];
      const int member = static_cast<int>(m);
      if (touches[m][static_cast<std::size_t>(Reach::node)]) busy = std::max({busy, load.port_out[m], load.port_in[m]});
      if (touches[m][static_cast<std::size_t>(Reach::group)] || touches[m][static_cast<std::size_t>(Reach::beyond)])
        busy = std::max({busy, load.card_out[card_of(member)], load.card_in[card_of(member)]});
      if (touches[m][static_cast<std::size_t>(Reach::beyond)])
        busy = std::max({busy, load.uplink_out[group_of(member)], load.uplink_in[group_of(member)]});
      finish[m] = sender_start[m] + latency[m] + busy;
      latency_ = std::max(latency_, latency[m]);
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
  Load total_;
  double latency_ = 0;
};

}  // namespace

PatternTime pattern_time(const Pattern& pattern, const NodeShape& shape, const Fabric& fabric,
                         const plan::RowCounts& counts, double row_bytes) {
  TRIREME_CHECK(pattern.size == shape.size(), "{} of {} members on {}", pattern.name, pattern.size, to_text(shape));
  return Evaluation(pattern, shape, fabric, counts, row_bytes, shape.size()).run();
}

PatternTime balanced_time(const std::string& name, const NodeShape& shape, const Fabric& fabric,
                          const plan::UniformRouting& counts, double row_bytes, int in_flight) {
  if (!shape.is_even())
    return pattern_time(plan::make_pattern(name, shape, {.in_flight = in_flight}), shape, fabric, counts, row_bytes);
  const int nodes = shape.nodes_per_group() > 0 ? shape.nodes_per_group() : 1;
  const int period = nodes * shape.ranks(0);
  const Pattern part = plan::make_pattern(name, shape, {.in_flight = in_flight, .senders = {0, period}});
  return Evaluation(part, shape, fabric, counts, row_bytes, period).run();
}

}  // namespace trireme::sim
