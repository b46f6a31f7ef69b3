#include "trireme/rank_probe.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <nlohmann/json.hpp>

#include "base/processor_time.h"
#include "comm/connect_store.h"
#include "comm/group.h"
#include "comm/link_probe.h"
#include "nn/probe/segment_probe.h"
#include "sim/core_sharing.h"

namespace trireme::apps {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::minutes patience{10};  // ranks sleep in a barrier while rank 0 measures

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// The mean over the ranks of a value that only some of them have (others give 0).
double mean_of(comm::Group& world, double value, int members) {
  at::Tensor t = at::full({1}, value, at::kDouble);
  if (world.size() > 1) comm::all_reduce(world, t, comm::ReduceOp::sum, "probe results");
  return t.item<double>() / members;
}

class RankProbe {
 public:
  RankProbe(const RankProbeOptions& options, platform::PlatformSpec& platform)
      : o_(options), platform_(platform), world_size_(o_.env.world), store_(comm::connect_store(o_.env, patience)),
        all_(communicator({.pp = 1, .dp = world_size_, .ep = world_size_}, "probe/all")), world_(all_->group(Axis::dp)) {
    // Pairs of neighbours, for what two ranks do between themselves.
    if (world_size_ > 2 && world_size_ % 2 == 0) pairs_ = communicator({.pp = world_size_ / 2, .dp = 2, .ep = 2}, "probe/pairs");
  }

  void run() {
    if (o_.env.rank == 0) o_.alone();
    comm::barrier(world_, "probe");
    platform_.host.busy.clear();
    platform_.host.noise = {};
    for (const int threads : o_.threads) busy(threads);
    links();
    comm::barrier(world_, "probe end");
  }

 private:
  std::unique_ptr<comm::Communicator> communicator(const plan::Mesh& mesh, const std::string& prefix) const {
    return std::make_unique<comm::Communicator>(
        store_, comm::CommunicatorOptions{.rank = o_.env.rank, .mesh = mesh, .device = o_.compute.device,
                                          .timeout = std::chrono::duration_cast<std::chrono::milliseconds>(patience),
                                          .prefix = prefix});
  }

  void say(const std::string& text) const {
    if (o_.env.rank == 0 && o_.compute.progress) o_.compute.progress(text);
  }

  // As many ranks as get so many threads each; with the fewest threads up to all ranks.
  std::set<int> busy_counts(int threads) const {
    const int most = threads == o_.threads.back() ? world_size_ : std::min(world_size_, platform_.host.cores / threads);
    std::set<int> counts = {1, most};
    for (int n = 2; n < most; n = n < 4 ? n + 1 : 2 * n) counts.insert(n);
    return counts;
  }

  // n ranks run the model's segments at one time. Several short turns for each n, all n in turn: a machine that something
  // else disturbs for a while disturbs one turn of each, and the median leaves it out.
  void busy(int threads) {
    at::set_num_threads(threads);
    model::SegmentShape shape = o_.shape;
    shape.threads = threads;
    nn::SegmentWork work(o_.model, shape, o_.compute);
    const int turns = o_.compute.quick ? 3 : 7;
    const double seconds = o_.compute.quick ? 0.1 : 0.25;
    const std::set<int> counts = busy_counts(threads);
    std::map<int, std::vector<double>> pass_s, relative;
    if (o_.env.rank < *counts.rbegin()) work.run(seconds);
    for (int turn = 0; turn < turns; ++turn)
      for (const int n : counts) {
        comm::barrier(world_, "probe busy ranks");
        nn::SegmentWork::Result mine;
        if (o_.env.rank < n) mine = work.run(seconds);
        pass_s[n].push_back(mean_of(world_, mine.pass_s, n));
        relative[n].insert(relative[n].end(), mine.relative.begin(), mine.relative.end());
      }
    platform::BusyTable table{.threads = threads, .source = platform::Source::measured};
    for (const int n : counts) {
      const auto quantiles = nn::noise_quantiles(relative[n]);
      table.ranks.push_back(n);
      table.slow_down.push_back(std::max(0.5, median(pass_s[n]) / median(pass_s[1])));
      table.hand_over_s.push_back(hand_over(work, n, seconds));
      table.noise.push_back(std::max(mean_of(world_, o_.env.rank == 0 ? sim::distance_from_mean(quantiles) : 0, 1), 1e-4));
      say(fmt::format("{} busy ranks of {} threads: {:.2f} times slower, a thread wakes in {:.0f} us, lengths vary by {:.0f} %", n, threads,
                      table.slow_down.back(), table.hand_over_s.back() * 1e6, 100 * table.noise.back()));
      if (n == world_size_ || platform_.host.noise.factor.empty()) platform_.host.noise = {.source = platform::Source::measured, .factor = quantiles};
    }
    platform_.host.busy.push_back(std::move(table));
  }

  // How soon a sleeping thread of rank 0 runs on while n ranks compute.
  double hand_over(nn::SegmentWork& work, int n, double seconds) {
    comm::barrier(world_, "probe hand-over");
    double mine = 0;
    if (o_.env.rank == 0) {
      std::thread own([&] { work.run(1.5 * seconds); });
      mine = nn::probe_hand_over(seconds);
      own.join();
    } else if (o_.env.rank < n) {
      work.run(1.5 * seconds);
    }
    return mean_of(world_, mine, 1);
  }

  comm::LinkProbeOptions link_options(std::vector<std::pair<int, int>> pairs, int members) const {
    comm::LinkProbeOptions options{.budget_s = o_.compute.quick ? 1.0 : 4.0, .pairs = std::move(pairs)};
    // More ranks than cores would take turns computing, and a sample would hold their turns.
    if (members * o_.threads.back() <= platform_.host.cores) options.compute_s = 1e-3;
    if (o_.compute.quick) options.bytes = {4, 4096, 65536, 1048576};
    return options;
  }

  void add(const comm::LinkCurve& curve) {
    platform::CollectiveTable table{.ranks = static_cast<int>(curve.members.size()), .source = platform::Source::measured};
    table.kind = curve.operation == comm::LinkOperation::message      ? platform::Collective::send_receive
                 : curve.operation == comm::LinkOperation::all_reduce ? platform::Collective::all_reduce
                                                                      : platform::Collective::all_to_all;
    for (const comm::LinkPoint& point : curve.points) {
      table.bytes.push_back(point.bytes);
      table.seconds.push_back(point.median_s);
    }
    say(fmt::format("{} of {} ranks: {:.0f} us to {:.2f} ms", nlohmann::json(table.kind).get<std::string>(), table.ranks,
                    table.seconds.front() * 1e6, table.seconds.back() * 1e3));
    if (table.kind == platform::Collective::send_receive) set_link(curve.points);
    platform_.collectives.push_back(std::move(table));
  }

  void set_link(const std::vector<comm::LinkPoint>& messages) {
    // The network between hosts stays what it was: nobody has measured it here.
    std::erase_if(platform_.links, [](const platform::Link& l) { return l.level == "host"; });
    platform_.links.insert(platform_.links.begin(), comm::link_of("host", messages));
  }

  // The share of a core that a rank keeps busy while a message of some size is on its way.
  void core_share() {
    comm::barrier(world_, "probe core share");
    double share = 0;
    if (o_.env.rank < 2) {
      at::Tensor data = at::zeros({1 << 16}, at::TensorOptions().device(o_.compute.device));
      const int peer = 1 - o_.env.rank;
      const double before = processor_seconds();
      const auto start = Clock::now();
      for (int i = 0; i < 300; ++i) {
        if (o_.env.rank == 0) comm::send(world_, data, peer, 0, "probe");
        comm::receive(world_, data, peer, 0, "probe");
        if (o_.env.rank == 1) comm::send(world_, data, peer, 0, "probe");
      }
      share = (processor_seconds() - before) / since(start);
    }
    platform_.framework.communication_core_share = std::clamp(mean_of(world_, o_.env.rank == 0 ? share : 0, 1), 0.0, 1.0);
    say(fmt::format("a message keeps {:.0f} % of a core busy", 100 * platform_.framework.communication_core_share));
  }

  void links() {
    if (world_size_ == 1) return;
    platform_.collectives.clear();
    if (pairs_) {
      std::vector<comm::LinkCurve> curves;
      if (o_.env.rank < 2) curves = comm::probe_links(pairs_->group(Axis::dp), link_options({{0, 1}}, 2));
      for (const comm::LinkCurve& curve : curves) add(curve);
      comm::barrier(world_, "probe links");
    }
    for (const comm::LinkCurve& curve : comm::probe_links(world_, link_options({{0, 1}}, world_size_)))
      if (!pairs_ || curve.operation != comm::LinkOperation::message) add(curve);
    core_share();
  }

  const RankProbeOptions& o_;
  platform::PlatformSpec& platform_;
  int world_size_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::unique_ptr<comm::Communicator> all_, pairs_;
  comm::Group& world_;
};

}  // namespace

std::vector<int> thread_counts(int cores, int ranks) {
  std::vector<int> out;
  for (int n = 1; n <= ranks; ++n)
    if (const int threads = std::max(1, cores / n); out.empty() || threads < out.back()) out.push_back(threads);
  return out;
}

void probe_ranks(const RankProbeOptions& options, platform::PlatformSpec& platform) { RankProbe(options, platform).run(); }

}  // namespace trireme::apps
