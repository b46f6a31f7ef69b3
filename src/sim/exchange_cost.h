// What the dispatch and the combine of a MoE layer send, message by message and phase by phase, every expert getting an
// equal share of the rows. It follows the run: parallel/expert_exchange.h and comm/token_exchange.h.
#pragma once
#include <string>
#include <vector>

#include "plan/all_to_all/row_counts.h"
#include "plan/run_spec.h"
#include "sim/message_cost.h"

namespace trireme::sim {

struct ExchangeLeg {
  std::string what;      // plan::PhaseSpan::part
  double row_bytes = 0;  // of what is counted: a member's counts for another, a row, a slot
  double rows = 0;       // that a member sends to others, were all of them to cross by themselves
  PatternTime time;
};

class ExchangeCost {
 public:
  // `messages` is kept by reference. ConfigError where the pattern does not fit the stage's hosts.
  ExchangeCost(const plan::RunSpec& run, const plan::Mesh& mesh, const MessageCost& messages, const std::string& pattern,
               int stage, bool by_links = false);

  // In order of issue. Of dispatch: counts (and what else must be known of the tokens), rows, scores; of combine: rows. In
  // a backward pass the rows' and scores' gradients.
  std::vector<ExchangeLeg> legs(model::Segment segment, model::Pass pass) const;

  // Of one micro-batch through one layer, forward and backward.
  double layer_s() const;

 private:
  ExchangeLeg leg(const char* what, const plan::Pattern& pattern, const plan::RowCounts& counts, double row_bytes) const;

  const MessageCost& messages_;
  int stage_, size_;
  bool by_links_;
  plan::Pattern there_, back_, flat_;
  plan::UniformRouting rows_;
  int top_k_, local_experts_;
  double row_bytes_, score_bytes_;
};

// The legs as spans from the action's start.
std::vector<plan::PhaseSpan> phase_spans(const std::vector<ExchangeLeg>& legs);

}  // namespace trireme::sim
