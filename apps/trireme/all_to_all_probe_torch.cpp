#include "trireme/all_to_all_probe.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base/errors.h"
#include "base/log.h"
#include "comm/connect_store.h"
#include "comm/link_probe.h"
#include "comm/pattern_race.h"
#include "comm/rank_hosts.h"
#include "comm/shared_link_probe.h"
#include "parallel/thread_policy.h"
#include "plan/all_to_all/generators.h"
#include "plan/all_to_all/traffic.h"
#include "platform/platform_file.h"
#include "report/topology.h"
#include "sim/network/choose.h"
#include "sim/network/pattern_time.h"
#include "trireme/standard_output.h"

namespace trireme::apps {
namespace {

using plan::NodeShape;

std::string size_text(double bytes) {
  if (bytes >= 1 << 20) return fmt::format("{:.4g} MiB", bytes / (1 << 20));
  if (bytes >= 1 << 10) return fmt::format("{:.4g} KiB", bytes / (1 << 10));
  return fmt::format("{:.0f} B", bytes);
}

std::string bar(double value, double largest) {
  return std::string(static_cast<std::size_t>(std::max(1.0, 40 * value / largest)), '#');
}

void print(const std::string& text) { write_output(text + "\n"); }

class NetworkProbe {
 public:
  explicit NetworkProbe(const NetworkProbeOptions& options)
      : o_(options),
        store_(comm::connect_store(o_.env, std::chrono::minutes(5))),
        shape_(shape()),
        all_(store_, {.rank = o_.env.rank,
                      .mesh = {.pp = 1, .dp = o_.env.world, .ep = o_.env.world},
                      .timeout = std::chrono::minutes(5),
                      .prefix = "probe",
                      .interface = o_.env.interface,
                      .master_address = o_.env.master_addr}),
        world_(all_.group(plan::world_group)) {}

  void run() {
    platform::PlatformSpec platform = platform::default_platform();
    const bool exists = std::filesystem::exists(o_.out);
    if (exists) platform = platform::load_platform(o_.out);
    const bool known = std::any_of(platform.shared_links.begin(), platform.shared_links.end(), [&](const auto& l) {
      return l.source == platform::Source::measured && l.nodes == shape_.num_nodes() &&
             l.nodes * l.ranks_per_node >= shape_.size();
    });
    // Every rank must take the same way, and rank 0 alone may have the file.
    at::Tensor measure = at::full({1}, o_.links || !known ? 1 : 0, at::kLong);
    comm::broadcast(world_, measure, 0, "probe");
    if (o_.env.rank == 0 && !o_.json) print(fmt::format("{} ranks: {}", shape_.size(), plan::to_text(shape_)));
    if (measure.item<std::int64_t>() != 0) links(platform);
    if (o_.links && o_.env.rank == 0) {
      platform::save_platform(platform, o_.out);
      if (!o_.json) print(fmt::format("links written to {}", o_.out));
    }
    if (o_.all_to_all) race(platform);
    if (o_.all_to_all && o_.save_race && o_.env.rank == 0) {
      platform::save_platform(platform, o_.out);
      if (!o_.json) print(fmt::format("the race's times written to {}", o_.out));
    }
    comm::barrier(world_, "probe end");
  }

 private:
  NodeShape shape() const {
    const auto hosts = comm::rank_hosts(store_, o_.env.rank, o_.env.world, "probe/nodes");
    const NodeShape found = NodeShape::of_hosts(hosts);
    return NodeShape(found.ranks_of_node(), o_.nodes_per_group);
  }

  void links(platform::PlatformSpec& platform) {
    // One message at a time: rank 0 with a neighbour on its node, and with the first rank of the next.
    std::vector<std::pair<int, int>> pairs;
    if (shape_.ranks(0) > 1) pairs.emplace_back(0, 1);
    if (shape_.num_nodes() > 1) pairs.emplace_back(0, shape_.first(1));
    comm::LinkProbeOptions alone{.budget_s = o_.quick ? 1.0 : 4.0, .pairs = pairs};
    if (o_.quick) alone.bytes = {4, 4096, 65536, 1048576};
    std::vector<comm::LinkCurve> curves;
    std::map<bool, std::string> figures;  // off the node, and on it
    if (!pairs.empty()) curves = comm::probe_links(world_, alone);
    for (const comm::LinkCurve& curve : curves) {
      if (curve.operation != comm::LinkOperation::message) continue;
      const bool off = shape_.node(curve.members[0]) != shape_.node(curve.members[1]);
      const platform::Link link = comm::link_of(off ? "network" : "host", curve.points);
      std::erase_if(platform.links, [&](const platform::Link& l) { return l.level == link.level; });
      platform.links.push_back(link);
      const comm::LinkPoint& largest = curve.points.back();
      figures[off] = fmt::format("{:.1f} us, {:.1f} MB/s", link.latency_s * 1e6, largest.bytes / largest.median_s / 1e6);
      tell(curve, off);
    }
    if (o_.env.rank == 0 && !o_.json) print("\n" + report::draw_topology(shape_, figures[false], figures[true]));
    comm::SharedLinkOptions together;
    if (o_.quick) together.samples = 3;
    const comm::SharedLinks shared = comm::probe_shared_links(world_, shape_, together);
    platform.shared_links = shared.links;
    platform.host.nodes_per_group = o_.nodes_per_group;
    tell(shared);
  }

  void tell(const comm::LinkCurve& curve, bool off) const {
    if (o_.env.rank != 0) return;
    if (!o_.json)
      print(fmt::format("\n{}: rank {} and rank {}, one message at a time", off ? "between nodes" : "on a node",
                        curve.members[0], curve.members[1]));
    double fastest = 0;
    for (const comm::LinkPoint& p : curve.points) fastest = std::max(fastest, p.bytes / p.median_s);
    for (const comm::LinkPoint& p : curve.points) {
      if (o_.json)
        print(nlohmann::json{{"link", off ? "network" : "host"},
                             {"bytes", p.bytes},
                             {"median_s", p.median_s},
                             {"p99_s", p.p99_s},
                             {"max_s", p.max_s},
                             {"samples", p.samples}}
                  .dump());
      else
        print(fmt::format("  {:>10}  median {:>9.1f} us  p99 {:>9.1f} us  max {:>9.1f} us  {:>8.1f} MB/s  {}",
                          size_text(p.bytes), p.median_s * 1e6, p.p99_s * 1e6, p.max_s * 1e6,
                          p.bytes / p.median_s / 1e6, bar(p.bytes / p.median_s, fastest)));
    }
  }

  void tell(const comm::SharedLinks& shared) const {
    if (o_.env.rank != 0) return;
    for (const platform::SharedLink& l : shared.links) {
      if (o_.json) {
        nlohmann::json line = l;
        line["shared_link"] = l.level;
        print(line.dump());
        for (const comm::SharedSample& s : shared.samples)
          if (s.level == l.level)
            print(nlohmann::json{{"shared_sample", s.level},
                                 {"messages", s.messages},
                                 {"bytes", s.bytes},
                                 {"in_flight", s.in_flight},
                                 {"busiest_bytes", s.busiest_bytes},
                                 {"median_s", s.median_s},
                                 {"max_s", s.max_s},
                                 {"fitted_s", s.fitted_s}}
                      .dump());
        continue;
      }
      print(
          fmt::format("\n{}, all ranks at once: {:.0f} us + {:.1f} us a message + bytes at {:.1f} MB/s a {} (median "
                      "residual {:.0f} %); where few may be under way {:.1f} us more a message and {:.1f} us a turn; rows copied at "
                      "{:.0f} MB/s a rank",
                      l.level == "host" ? "on the nodes" : "between nodes", l.latency_s * 1e6, l.message_s * 1e6,
                      l.bytes_per_s / 1e6, l.level == "host" ? "rank" : "node", l.residual * 100, l.wake_s * 1e6,
                      std::max(0.0, l.turn_s) * 1e6, l.copy_bytes_per_s / 1e6));
      for (const comm::SharedSample& s : shared.samples)
        if (s.level == l.level)
          print(fmt::format("  {:>3} messages of {:>8}{}: {:>9.3f} ms, largest {:>9.3f}, fit {:>9.3f} ({:+.0f} %)",
                            s.messages, size_text(s.bytes),
                            s.in_flight > 0 ? fmt::format(", {} at a time", s.in_flight) : "", s.median_s * 1e3, s.max_s * 1e3, s.fitted_s * 1e3,
                            100 * (s.fitted_s / s.median_s - 1)));
    }
  }

  // This race's times instead of earlier ones of the same sizes on as many nodes.
  void keep(platform::PlatformSpec& platform, const std::vector<comm::RacePoint>& points) const {
    if (!shape_.is_even()) throw ConfigError({.key = "--save-race", .value = plan::to_text(shape_),
                                              .allowed = "nodes with equally many ranks"});
    for (const comm::RacePoint& p : points) {
      auto at = std::find_if(platform.races.begin(), platform.races.end(), [&](const platform::PatternRace& r) {
        return r.pattern == p.pattern && r.nodes == shape_.num_nodes() && r.ranks_per_node == shape_.ranks(0) &&
               r.top_k == o_.top_k;
      });
      if (at == platform.races.end())
        at = platform.races.insert(at, {.pattern = p.pattern,
                                        .source = platform::Source::measured,
                                        .nodes = shape_.num_nodes(),
                                        .ranks_per_node = shape_.ranks(0),
                                        .top_k = o_.top_k});
      std::map<double, double> curve;
      for (std::size_t i = 0; i < at->bytes.size(); ++i) curve[at->bytes[i]] = at->seconds[i];
      curve[p.bytes_per_pair] = p.median_s;
      at->bytes.clear();
      at->seconds.clear();
      for (const auto& [bytes, seconds] : curve) {
        at->bytes.push_back(bytes);
        at->seconds.push_back(seconds);
      }
    }
  }

  // Chosen by races that the platform had before, where it has them for these nodes; the price's own choice is shown too.
  void race(platform::PlatformSpec& platform) {
    comm::RaceOptions race{.patterns = o_.patterns.empty() ? plan::pattern_names(shape_) : o_.patterns,
                           .samples = o_.samples,
                           .top_k = o_.top_k};
    if (!o_.bytes_per_pair.empty()) race.bytes_per_pair = o_.bytes_per_pair;
    if (o_.quick) race.batch_s = 0.02;
    const auto points = comm::race_patterns(world_, shape_, race);
    if (o_.env.rank != 0) return;
    const sim::Fabric fabric = sim::fabric_of(platform, shape_);
    for (const double bytes : race.bytes_per_pair) {
      const comm::RacedTokens raced = comm::raced_tokens(shape_.size(), bytes, race);
      const plan::TokenRoutes routes = comm::routes_of(raced, shape_, race);
      const sim::Choice priced = sim::choose_pattern(race.patterns, shape_, fabric, routes, raced.row_bytes);
      const plan::UniformRouting uniform(shape_.size(), raced.tokens, per_member(race) * shape_.size(), race.top_k);
      sim::Choice choice = sim::choose_pattern(race.patterns, shape_, platform, uniform, raced.row_bytes);
      if (!choice.raced) choice = priced;
      std::vector<comm::RacePoint> of_size;
      for (const comm::RacePoint& p : points)
        if (p.bytes_per_pair == bytes) of_size.push_back(p);
      tell(of_size, choice, priced, routes, raced.row_bytes);
    }
    if (o_.save_race) keep(platform, points);
  }

  int per_member(const comm::RaceOptions& race) const {
    return plan::TokenDraw{.members = shape_.size(), .experts = race.experts}.per_member();
  }

  void tell(const std::vector<comm::RacePoint>& points, const sim::Choice& choice, const sim::Choice& priced,
            const plan::RowCounts& routes, double row_bytes) const {
    std::map<std::string, double> predicted, measured;
    for (const sim::Candidate& c : priced.ranked) predicted[c.pattern] = c.seconds;
    for (const comm::RacePoint& p : points) measured[p.pattern] = p.median_s;
    const auto best = std::min_element(points.begin(), points.end(),
                                       [](const auto& a, const auto& b) { return a.median_s < b.median_s; });
    const auto worst = std::max_element(points.begin(), points.end(),
                                        [](const auto& a, const auto& b) { return a.median_s < b.median_s; });
    if (!o_.json)
      print(fmt::format("\n{} a pair\n  {:<14} {:>11} {:>11} {:>11} {:>9} {:>12} {:>6}",
                        size_text(points.front().bytes_per_pair), "pattern", "median ms", "p99 ms", "predicted",
                        "messages", "off-node", "cores"));
    for (const comm::RacePoint& p : points) {
      // Of the rank that sends the most.
      int messages = 0;
      double bytes = 0;
      for (const plan::Traffic& t : plan::traffic(plan::make_pattern(p.pattern, shape_), shape_, routes)) {
        messages = std::max(messages, t.off_node().messages);
        bytes = std::max(bytes, t.off_node().rows * row_bytes);
      }
      if (o_.json)
        print(nlohmann::json{{"pattern", p.pattern},
                             {"bytes_per_pair", p.bytes_per_pair},
                             {"median_s", p.median_s},
                             {"p99_s", p.p99_s},
                             {"max_s", p.max_s},
                             {"samples", p.samples},
                             {"predicted_s", predicted[p.pattern]},
                             {"messages_off_node", messages},
                             {"bytes_off_node", bytes},
                             {"busy_cores", p.busy_cores}}
                  .dump());
      else
        print(fmt::format("  {:<14} {:>11.3f} {:>11.3f} {:>11.3f} {:>9} {:>12} {:>6.1f}  {}", p.pattern,
                          p.median_s * 1e3, p.p99_s * 1e3, predicted[p.pattern] * 1e3, messages, size_text(bytes),
                          p.busy_cores, bar(p.median_s, worst->median_s)));
    }
    const double pick_s = measured.at(choice.pick().pattern), priced_s = measured.at(priced.pick().pattern);
    if (o_.json) {
      nlohmann::json line{{"bytes_per_pair", points.front().bytes_per_pair},
                          {"pick", choice.pick().pattern},
                          {"pick_by", choice.raced ? "race" : "price"},
                          {"predicted_s", choice.pick().seconds},
                          {"best", best->pattern},
                          {"pick_over_best", pick_s / best->median_s},
                          {"priced_pick", priced.pick().pattern},
                          {"priced_pick_over_best", priced_s / best->median_s}};
      if (const auto* second = choice.runner_up()) {
        line["runner_up"] = second->pattern;
        line["runner_up_predicted_s"] = second->seconds;
      }
      print(line.dump());
    } else {
      print(fmt::format("  chosen: {}; fastest here: {} (chosen takes {:.2f} times as long)", to_text(choice),
                        best->pattern, pick_s / best->median_s));
      if (choice.raced)
        print(fmt::format("  by price alone: {} ({:.2f} times as long)", to_text(priced), priced_s / best->median_s));
    }
  }

  const NetworkProbeOptions& o_;
  c10::intrusive_ptr<c10d::Store> store_;
  NodeShape shape_;
  comm::Communicator all_;
  comm::Group& world_;
};

}  // namespace

void probe_network(const NetworkProbeOptions& options) {
  set_up_log({.rank = options.env.world > 1 && options.env.rank > 0 ? options.env.rank : -1});
  if (options.env.world < 2)
    throw ConfigError({.key = "--ranks", .value = "1", .allowed = "2 or more: there is no network in one rank"});
  for (const std::string& name : options.patterns) plan::make_pattern(name, NodeShape::even(4, 1, 2));
  parallel::use_batch_scheduling();  // as training does where ranks share cores; nothing where they don't
  NetworkProbe(options).run();
}

}  // namespace trireme::apps
