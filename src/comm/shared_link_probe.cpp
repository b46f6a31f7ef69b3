#include "comm/shared_link_probe.h"

#include <algorithm>
#include <set>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "comm/link_probe.h"
#include "comm/pattern_messages.h"
#include "comm/timed_batches.h"

namespace trireme::comm {
namespace {

using plan::NodeShape;
using plan::Pattern;

// Messages of one size, of nothing in particular.
class FixedContents final : public MessageContents {
 public:
  FixedContents(std::int64_t bytes, int most_messages, at::Device device)
      : bytes_(bytes),
        sent_(at::zeros({bytes}, at::TensorOptions(at::kByte).device(device))),
        received_(at::zeros({bytes * most_messages}, at::TensorOptions(at::kByte).device(device))) {}
  at::Tensor to_send(int, const OwnMessage&) override { return sent_; }
  at::Tensor to_receive(int, const OwnMessage& m) override { return received_.narrow(0, m.index * bytes_, bytes_); }
  void received(int, const OwnMessage&, const at::Tensor&) override {}
  void keep(int, const plan::Parcel&) override {}

 private:
  std::int64_t bytes_;
  at::Tensor sent_, received_;
};

// Every member to the next `partners` members of its node.
Pattern inside(const NodeShape& shape, int partners) {
  Pattern p{.name = "inside nodes", .size = shape.size(), .phases = {{.name = "direct"}}};
  for (int step = 1; step <= partners; ++step)
    for (int from = 0; from < shape.size(); ++from) {
      const int node = shape.node(from);
      if (step < shape.ranks(node))
        p.phases[0].transfers.push_back({from, shape.counterpart(node, shape.local(from) + step), {}});
    }
  return p;
}

// Every member to its counterparts on the next `partners` nodes.
Pattern across(const NodeShape& shape, int partners) {
  Pattern p{.name = "between nodes", .size = shape.size(), .phases = {{.name = "direct"}}};
  for (int step = 1; step <= partners; ++step)
    for (int from = 0; from < shape.size(); ++from) {
      const int other = (shape.node(from) + step) % shape.num_nodes();
      p.phases[0].transfers.push_back({from, shape.counterpart(other, shape.local(from)), {}});
    }
  return p;
}

}  // namespace

SharedLinks probe_shared_links(Group& group, const NodeShape& shape, const SharedLinkOptions& options) {
  SharedLinks out;
  const auto& ranks = shape.ranks_of_node();
  const int widest = *std::max_element(ranks.begin(), ranks.end());
  const auto measure = [&](const std::string& level, const Pattern& pattern, int messages, double share) {
    const OwnPart part = own_part(pattern, group.rank());
    const int received = static_cast<int>(part.phases[0].receives.size());
    for (const double bytes : options.bytes) {
      FixedContents contents(static_cast<std::int64_t>(bytes), std::max(1, received), group.device);
      TimedBatches timed(
          group, [&] { run_messages(group, part, contents, "probe"); }, options.batch_s);
      std::vector<double> samples;
      for (int i = 0; i < options.samples; ++i) samples.push_back(timed.sample());
      const LinkPoint point = summarise(bytes, samples);
      out.samples.push_back({.level = level,
                             .messages = messages,
                             .bytes = bytes,
                             .busiest_bytes = bytes * messages * share,
                             .median_s = point.median_s,
                             .max_s = point.p99_s});
      if (options.progress)
        options.progress(fmt::format("{}: {} messages of {:.0f} bytes a rank, all at once: {:.3g} ms", level, messages,
                                     bytes, point.median_s * 1e3));
      if (point.median_s * 8 > options.longest_s) break;
    }
  };
  if (widest > 1)
    for (const int partners : std::set<int>{1, widest / 2, widest - 1})
      if (partners > 0) measure("host", inside(shape, partners), partners, 1);
  if (shape.num_nodes() > 1)
    for (const int partners : std::set<int>{1, shape.num_nodes() / 2, shape.num_nodes() - 1})
      if (partners > 0) measure("network", across(shape, partners), partners, widest);
  for (const std::string level : {"host", "network"}) {
    std::vector<SharedSample*> of_level;
    for (SharedSample& s : out.samples)
      if (s.level == level) of_level.push_back(&s);
    if (of_level.empty()) continue;
    platform::SharedLink link = fit_shared_link(of_level);
    link.nodes = shape.num_nodes();
    link.ranks_per_node = widest;
    out.links.push_back(std::move(link));
  }
  return out;
}

}  // namespace trireme::comm
