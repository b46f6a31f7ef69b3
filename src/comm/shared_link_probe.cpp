#include "comm/shared_link_probe.h"

#include <algorithm>

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

// `copies` messages of every member to the next `partners` members of its node (or to its counterparts on the next
// nodes), all at once: in phases side by side.
Pattern burst(const NodeShape& shape, bool off_node, int partners, int copies) {
  Pattern p{.name = off_node ? "between nodes" : "inside nodes", .size = shape.size()};
  for (int copy = 0; copy < copies; ++copy) {
    plan::Phase phase{.name = fmt::format("messages {}", copy)};
    for (int step = 1; step <= partners; ++step)
      for (int from = 0; from < shape.size(); ++from) {
        const int node = shape.node(from), local = shape.local(from);
        if (off_node)
          phase.transfers.push_back({from, shape.counterpart((node + step) % shape.num_nodes(), local), {}});
        else if (step < shape.ranks(node))
          phase.transfers.push_back({from, shape.counterpart(node, local + step), {}});
      }
    p.phases.push_back(std::move(phase));
  }
  return p;
}

}  // namespace

SharedLinks probe_shared_links(Group& group, const NodeShape& shape, const SharedLinkOptions& options) {
  SharedLinks out;
  const auto& ranks = shape.ranks_of_node();
  const int widest = *std::max_element(ranks.begin(), ranks.end());
  const auto measure = [&](bool off_node, int partners, int copies) {
    const std::string level = off_node ? "network" : "host";
    const OwnPart part = own_part(burst(shape, off_node, partners, copies), group.rank());
    const int received = static_cast<int>(part.phases.front().receives.size()), messages = partners * copies;
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
                             .busiest_bytes = bytes * messages * (off_node ? widest : 1),
                             .median_s = point.median_s,
                             .max_s = point.p99_s});
      if (options.progress)
        options.progress(fmt::format("{}: {} messages of {:.0f} bytes a rank, all at once: {:.3g} ms", level, messages,
                                     bytes, point.median_s * 1e3));
      if (point.median_s * 8 > options.longest_s) break;
    }
  };
  // One message, one to every partner, and as many as the flat pattern has.
  if (widest > 1) {
    measure(false, 1, 1);
    if (widest > 2) measure(false, widest - 1, 1);
    measure(false, widest - 1, 3);
  }
  if (const int others = shape.num_nodes() - 1; others > 0) {
    measure(true, 1, 1);
    if (others > 1) measure(true, others, 1);
    measure(true, others, std::max(2, widest));
  }
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
