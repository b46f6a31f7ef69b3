#include "sim/estimate/described.h"

#include <cmath>

#include "sim/estimate/expert_load.h"

namespace trireme::sim {

namespace {

template <class Reader>
void read(const Setting& s, const Reader& reader) {
  static const model::Kernels plain{};
  const int experts = s.model.moe.num_experts;
  const model::Share share = rank_share(s, plain, experts > 0 ? heaviest_rank(s.load, experts, s.layout.ep) : 1);
  reader(subject_of(s, plain, share));
}

}  // namespace

model::RowExchange row_exchange(const std::string& pattern) {
  if (pattern == "dedup") return model::RowExchange::tokens;
  if (pattern == "allgather") return model::RowExchange::gathered;
  if (pattern == "halo" || pattern == "halo3" || pattern == "node_aware") return model::RowExchange::packed;
  if (pattern == "allgather_a2a") return model::RowExchange::staged;
  return model::RowExchange::rows;
}

model::Share rank_share(const Setting& s, const model::Kernels& kernels, double load_factor) {
  const plan::LayoutSpec& l = s.layout;
  const model::MoeSpec& m = s.model.moe;
  model::Share out{.sequences = double(s.batch.micro_batch), .sequence_length = double(s.batch.sequence_length)};
  out.tokens = out.sequences * out.sequence_length / l.cp;
  out.sequence_parallel = l.sequence_parallel;
  out.split_tokens = l.sequence_parallel ? out.tokens / l.tp : out.tokens;
  out.tp = l.tp, out.cp = l.cp, out.ep = l.ep, out.etp = l.etp;
  if (l.ep > 1) out.exchange = row_exchange(l.all_to_all);
  out.tensor_beside = l.overlap.tensor, out.experts_beside = l.overlap.experts;
  if (m.num_experts > 0) {
    out.rows_sent = out.split_tokens * m.router.top_k;
    // Every expert gets the same number of rows of each rank.
    if (kernels.pads_to_capacity) out.rows_sent = std::ceil(out.rows_sent / m.num_experts) * m.num_experts;
    out.rows = out.rows_sent * l.etp * (kernels.pads_to_capacity ? 1 : load_factor);
  }
  return out;
}

model::Subject subject_of(const Setting& s, const model::Kernels& kernels, const model::Share& share,
                          plan::RecomputeSet recompute) {
  return {s.model, share, s.precision, s.execution, kernels, recompute};
}

double stage_message_bytes(const Setting& s) {
  double bytes = 0;
  read(s, [&](const model::Subject& subject) { bytes = model::stream_bytes(subject, subject.share.tokens); });
  return bytes;
}

void add_layer_operators(const Setting& s, int layer, OperatorList& out) {
  read(s, [&](const model::Subject& subject) { model::layer_operators(subject, layer, out); });
}
void add_embedding_operators(const Setting& s, OperatorList& out) {
  read(s, [&](const model::Subject& subject) { model::embedding_operators(subject, out); });
}
void add_head_operators(const Setting& s, OperatorList& out) {
  read(s, [&](const model::Subject& subject) { model::head_operators(subject, out); });
}
void add_mtp_operators(const Setting& s, OperatorList& out) {
  read(s, [&](const model::Subject& subject) { model::mtp_operators(subject, out); });
}

}  // namespace trireme::sim
