#include "comm/shared_link_probe.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "comm/block_contents.h"
#include "comm/link_probe.h"
#include "comm/pattern_messages.h"
#include "comm/timed_batches.h"

namespace trireme::comm {
namespace {

using plan::NodeShape;
using plan::Pattern;

// Exchanges of a pattern whose blocks are all of one size, with all that a member does for blocks.
class BlockBurst {
 public:
  BlockBurst(Group& group, const Pattern& pattern, double bytes)
      : group_(group), part_(own_part(pattern, group.rank())), counts_(group.size()) {
    for (int s = 0; s < group.size(); ++s)
      for (int d = 0; d < group.size(); ++d) counts_.set({s, d}, 1);
    rows_ = at::zeros({group.size(), static_cast<std::int64_t>(bytes)}, at::TensorOptions(at::kByte).device(group.device));
  }
  void run() {
    BlockContents contents(rows_, counts_, group_.rank(), buffers_);
    run_messages(group_, part_, contents, "probe");
    buffers_.release_all();
  }

 private:
  Group& group_;
  OwnPart part_;
  BlockCounts counts_;
  at::Tensor rows_;
  RowBuffers buffers_;
};

// `copies` messages of every member to the next `partners` members of its node (or to its counterparts on the next
// nodes): in phases side by side, all at once or each with so many in flight.
Pattern burst(const NodeShape& shape, bool off_node, int partners, int copies, int in_flight) {
  Pattern p{.name = off_node ? "between nodes" : "inside nodes", .size = shape.size()};
  for (int copy = 0; copy < copies; ++copy) {
    plan::Phase phase{.name = fmt::format("messages {}", copy), .in_flight = in_flight};
    for (int step = 1; step <= partners; ++step)
      for (int from = 0; from < shape.size(); ++from) {
        const int node = shape.node(from), local = shape.local(from);
        if (!off_node && step >= shape.ranks(node)) continue;
        const int to = shape.counterpart(off_node ? (node + step) % shape.num_nodes() : node, off_node ? local : local + step);
        phase.transfers.push_back({from, to, {plan::block(from, (to + copy) % shape.size())}});
      }
    p.phases.push_back(std::move(phase));
  }
  return p;
}

// Median seconds of what all members do together.
double seconds_of(Group& group, const SharedLinkOptions& options, const std::function<void()>& work) {
  TimedBatches timed(group, work, options.batch_s);
  std::vector<double> samples;
  for (int i = 0; i < options.samples; ++i) samples.push_back(timed.sample());
  return summarise(1, samples).median_s;
}

// Bytes a second of a member that copies rows of 4 KiB from one place to another.
double copy_rate(Group& group, const SharedLinkOptions& options) {
  constexpr std::size_t row = 4096;
  const std::size_t bytes = std::max(row, static_cast<std::size_t>(options.copied_bytes) / row * row);
  std::vector<std::byte> from(bytes, std::byte{1}), to(bytes);
  const double seconds = seconds_of(group, options, [&] {
    // From the end: neither side is one stretch.
    for (std::size_t at = 0; at < bytes; at += row) std::memcpy(&to[at], &from[bytes - row - at], row);
  });
  return static_cast<double>(bytes) / seconds;
}

// Seconds of a member that picks 8 rows of 64 bytes by their numbers.
double gather_time(Group& group, const SharedLinkOptions& options) {
  constexpr int times = 16;
  const at::Tensor rows = at::zeros({64, 16}, at::TensorOptions(at::kFloat).device(group.device));
  const at::Tensor picks = at::arange(0, 64, 8, at::TensorOptions(at::kLong).device(group.device));
  return seconds_of(group, options,
                  [&] {
                    for (int i = 0; i < times; ++i) rows.index_select(0, picks);
                  }) /
         times;
}

}  // namespace

SharedLinks probe_shared_links(Group& group, const NodeShape& shape, const SharedLinkOptions& options) {
  SharedLinks out;
  const auto& ranks = shape.ranks_of_node();
  const int widest = *std::max_element(ranks.begin(), ranks.end());
  const auto measure = [&](bool off_node, int partners, int copies, int in_flight = 0) {
    const std::string level = off_node ? "network" : "host";
    const Pattern pattern = burst(shape, off_node, partners, copies, in_flight);
    const int messages = partners * copies;
    for (const double bytes : options.bytes) {
      BlockBurst exchange(group, pattern, bytes);
      TimedBatches timed(
          group, [&] { exchange.run(); }, options.batch_s);
      std::vector<double> samples;
      for (int i = 0; i < options.samples; ++i) samples.push_back(timed.sample());
      const LinkPoint point = summarise(bytes, samples);
      out.samples.push_back({.level = level,
                             .messages = messages,
                             .bytes = bytes,
                             .in_flight = in_flight,
                             .busiest_bytes = bytes * messages * (off_node ? widest : 1),
                             .median_s = point.median_s,
                             .max_s = point.p99_s});
      if (options.progress)
        options.progress(fmt::format("{}: {} messages of {:.0f} bytes a rank, {}: {:.3g} ms", level, messages, bytes,
                                     in_flight > 0 ? fmt::format("{} at a time", in_flight) : "all at once",
                                     point.median_s * 1e3));
      if (in_flight > 0) break;  // the smallest say what waiting costs
      if (point.median_s * 8 > options.longest_s) break;
    }
  };
  // One message, one to every partner, and as many as the flat pattern has.
  if (widest > 1) {
    measure(false, 1, 1);
    if (widest > 2) measure(false, widest - 1, 1);
    measure(false, widest - 1, 3);
    if (widest > 2) measure(false, widest - 1, 1, 1);
    if (widest > 3) measure(false, widest - 1, 1, 2);
  }
  if (const int others = shape.num_nodes() - 1; others > 0) {
    measure(true, 1, 1);
    if (others > 1) measure(true, others, 1);
    measure(true, others, std::max(2, widest));
    if (others > 1) measure(true, others, 1, 1);
    if (others > 2) measure(true, others, 1, 2);
    if (others > 4) measure(true, others, 1, 4);
  }
  double both_s = 0;
  if (widest > 1 && shape.num_nodes() > 1) {
    Pattern both = burst(shape, true, shape.num_nodes() - 1, 1, 0);
    both.phases.push_back(burst(shape, false, widest - 1, 1, 0).phases.front());
    BlockBurst exchange(group, both, options.bytes.front());
    both_s = seconds_of(group, options, [&] { exchange.run(); });
  }
  const double copied = copy_rate(group, options), gather_s = gather_time(group, options);
  for (const std::string level : {"host", "network"}) {
    std::vector<SharedSample*> of_level, bounded;
    for (SharedSample& s : out.samples)
      if (s.level == level) (s.in_flight > 0 ? bounded : of_level).push_back(&s);
    if (of_level.empty()) continue;
    platform::SharedLink link = fit_shared_link(of_level);
    fit_turns(bounded, link);
    link.copy_bytes_per_s = copied;
    link.gather_s = gather_s;
    link.nodes = shape.num_nodes();
    link.ranks_per_node = widest;
    out.links.push_back(std::move(link));
  }
  if (both_s > 0) {
    const platform::SharedLink &host = out.links[0], &network = out.links[1];
    const double apart_s =
        network.latency_s + (shape.num_nodes() - 1) * network.message_s + (widest - 1) * host.message_s;
    const double own = std::clamp((both_s - apart_s) / std::max(host.latency_s, 1e-12), 0.0, 1.0);
    for (platform::SharedLink& link : out.links) link.own_latency = own;
  }
  return out;
}

}  // namespace trireme::comm
