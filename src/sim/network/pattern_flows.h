// A pattern's messages on a fabric: how many rows, over which links, and who posts them in which step. A member posts
// the messages of a phase in steps, a receive and a send in each, half a message's own time for either.
#pragma once
#include <vector>

#include "plan/all_to_all/node_shape.h"
#include "plan/all_to_all/pattern.h"
#include "plan/all_to_all/row_counts.h"
#include "sim/network/fabric.h"
#include "sim/network/fabric_links.h"

namespace trireme::sim {

struct Flow {
  int from = 0, to = 0;       // members
  int send = 0, receive = 0;  // steps of the sender and of the receiver
  int phase = 0;
  double rows = 0;
};

// What a member does in a phase.
struct Steps {
  static constexpr int none = -1;    // no message, or one without rows
  std::vector<int> sends, receives;  // flows by step
  std::vector<double> own_s;         // by step
  int num_receives = 0;              // that are a flow
};

class PatternFlows {
 public:
  // Members are folded onto the first `period`, those that the pattern has senders for.
  PatternFlows(const plan::Pattern& pattern, const plan::NodeShape& shape, const Fabric& fabric,
               const plan::RowCounts& counts, int period);

  const std::vector<Flow>& flows() const { return flows_; }
  const FabricLinks& links() const { return links_; }
  int period() const { return period_; }
  int sender(const Flow& flow) const { return links_.folded(flow.from); }
  int receiver(const Flow& flow) const { return links_.folded(flow.to); }
  double latency_s(const Flow& flow) const { return fabric_.wire(shape_.reach(flow.from, flow.to)).latency_s; }
  const Steps& steps(int phase, int member) const {
    return steps_[static_cast<std::size_t>(phase)][static_cast<std::size_t>(member)];
  }

  // The most seconds of work over all phases that anything has: "messages" (a member's own time) or a kind of link.
  struct Load {
    const char* name = "";
    double seconds = 0;
  };
  Load busiest(double row_bytes) const;
  // The same of links on nodes and of those off them.
  double inside_s(double row_bytes) const { return busiest_link(row_bytes, 0, links_.first_card()).seconds; }
  double outside_s(double row_bytes) const { return busiest_link(row_bytes, links_.first_card(), links_.size()).seconds; }

 private:
  Load busiest_link(double row_bytes, int first, int last) const;
  void add(const plan::Transfer& transfer, int phase, bool bounded, const plan::Pattern& pattern,
           const plan::RowCounts& counts);

  const plan::NodeShape& shape_;
  const Fabric& fabric_;
  FabricLinks links_;
  int period_;
  std::vector<Flow> flows_;
  std::vector<double> rows_of_link_;
  std::vector<std::vector<Steps>> steps_;  // by phase and member
};

}  // namespace trireme::sim
