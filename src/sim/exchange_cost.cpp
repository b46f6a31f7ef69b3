#include "sim/exchange_cost.h"

#include "plan/all_to_all/generators.h"
#include "plan/exchange_pattern.h"
#include "sim/estimate/layer_time.h"

namespace trireme::sim {

using model::Pass;
using model::Segment;

namespace {

// Slots instead of rows: where a token travels once, so do all of its slots.
class SlotCounts final : public plan::RowCounts {
 public:
  SlotCounts(const plan::RowCounts& rows, int top_k) : rows_(rows), top_k_(top_k) {}
  double each(const plan::Members& s, const plan::Members& d) const override { return rows_.each(s, d); }
  double once(int s, const plan::Members& d) const override { return top_k_ * rows_.once(s, d); }
  double all(int s) const override { return top_k_ * rows_.all(s); }

 private:
  const plan::RowCounts& rows_;
  int top_k_;
};

plan::UniformRouting routing_of(const plan::RunSpec& run, int members) {
  const RouterShape router = router_of(run.model);
  return {members,        static_cast<double>(run.batch.micro_batch * run.batch.sequence_length),
          router.experts, router.top_k,
          router.groups,  router.chosen_groups};
}

plan::BlockTable one_a_block(int size) {
  return {size, std::vector<double>(static_cast<std::size_t>(size) * size, 1)};
}

}  // namespace

ExchangeCost::ExchangeCost(const plan::RunSpec& run, const plan::Mesh& mesh, const MessageCost& messages,
                           const std::string& pattern, int stage, bool by_links)
    : messages_(messages),
      stage_(stage),
      size_(mesh.ep),
      by_links_(by_links),
      there_(plan::make_pattern(pattern, plan::node_shape(mesh, Axis::ep, mesh.rank(stage, 0)))),
      back_(plan::transpose(there_)),
      flat_(plan::make_pattern("flat", mesh.ep)),
      rows_(routing_of(run, mesh.ep)),
      top_k_(run.model.moe.router.top_k),
      local_experts_(run.model.moe.num_experts / mesh.ep),
      row_bytes_(static_cast<double>(run.model.hidden * size_of(run.device.dtype))),
      score_bytes_(static_cast<double>(size_of(accumulate_dtype(run.device.dtype)))) {}

ExchangeLeg ExchangeCost::leg(const char* what, const plan::Pattern& pattern, const plan::RowCounts& counts,
                                double row_bytes) const {
  return {.what = what,
          .row_bytes = row_bytes,
          .rows = counts.each({.first = 0}, {.first = 1, .count = size_ - 1}),
          .time = messages_.all_to_all(pattern, stage_, counts, row_bytes, by_links_)};
}

std::vector<ExchangeLeg> ExchangeCost::legs(Segment segment, Pass pass) const {
  std::vector<ExchangeLeg> out;
  if (size_ == 1) return out;
  const bool tokens = plan::needs_tokens(there_), forward = pass == Pass::forward;
  const plan::Pattern& way = (segment == Segment::dispatch) == forward ? there_ : back_;
  const SlotCounts slots(rows_, top_k_);
  if (segment == Segment::dispatch && forward) {
    const plan::BlockTable blocks = one_a_block(size_);
    if (tokens) {
      out.push_back(leg("counts", there_, blocks, 8.0 * static_cast<double>(there_.phases.size())));
      out.push_back(leg("experts", there_, slots, 4.0));
    } else {
      out.push_back(leg("counts", flat_, blocks, 8.0 * local_experts_));
      if (there_.phases.size() > 1) out.push_back(leg("block counts", there_, blocks, 8.0));
    }
  }
  out.push_back(leg("rows", way, rows_, row_bytes_));
  if (segment == Segment::dispatch) {
    if (tokens)
      out.push_back(leg("scores", way, slots, score_bytes_));
    else
      out.push_back(leg("scores", way, rows_, score_bytes_));
  }
  return out;
}

double ExchangeCost::layer_s() const {
  double sum = 0;
  for (const Segment segment : {Segment::dispatch, Segment::combine})
    for (const Pass pass : {Pass::forward, Pass::backward})
      for (const ExchangeLeg& p : legs(segment, pass)) sum += p.time.seconds;
  return sum;
}

std::vector<plan::PhaseSpan> phase_spans(const std::vector<ExchangeLeg>& legs) {
  std::vector<plan::PhaseSpan> out;
  double start = 0;
  for (const ExchangeLeg& p : legs) {
    for (const PhaseTime& phase : p.time.phases)
      out.push_back({.part = p.what, .phase = phase.name, .start_s = start + phase.begin_s, .end_s = start + phase.end_s});
    start += p.time.seconds;
  }
  return out;
}

}  // namespace trireme::sim
