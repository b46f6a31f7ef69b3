#include "sim/estimate/memory_sizes.h"

#include <algorithm>
#include <cmath>

namespace trireme::sim {

namespace {

double stored_input_bytes(const Precision& precision) {
  switch (precision.compute) {
    case ComputeFormat::float8:
      return 1;
    case ComputeFormat::mxfp8:
      return 1 + 1.0 / 32;  // a scale of a byte for 32 elements
    case ComputeFormat::nvfp4:
      return 0.5 + 1.0 / 16;
    default:
      return precision.activation_bytes;
  }
}

}  // namespace

MemorySizes memory_sizes(const Setting& setting, const model::Kernels& kernels, double load_factor) {
  const auto& layout = setting.layout;
  const auto& m = setting.model.moe;
  MemorySizes z;
  z.tp = layout.tp, z.cp = layout.cp, z.ep = layout.ep, z.etp = layout.etp;
  z.sequence = static_cast<double>(setting.batch.sequence_length);
  z.tokens = static_cast<double>(setting.batch.micro_batch) * z.sequence / layout.cp;
  z.split_tokens = layout.sequence_parallel ? z.tokens / layout.tp : z.tokens;
  z.element = setting.precision.activation_bytes;
  z.kept_input = stored_input_bytes(setting.precision);
  z.quantised = z.kept_input < z.element;
  if (m.num_experts > 0) {
    z.local_experts = std::max(1, m.num_experts / layout.ep);
    z.rows_sent = z.split_tokens * m.router.top_k;
    // Every expert gets the same number of rows of each rank.
    if (kernels.pads_to_capacity) z.rows_sent = std::ceil(z.rows_sent / m.num_experts) * m.num_experts;
    z.rows = z.rows_sent * layout.etp * (kernels.pads_to_capacity ? 1 : load_factor);
  }
  return z;
}

double vocabulary_rows(const Setting& setting, const model::Kernels& kernels) {
  const double multiple = static_cast<double>(kernels.vocabulary_multiple) * setting.layout.tp;
  const double rows = static_cast<double>(setting.model.vocab_size + kernels.vocabulary_extra);
  return std::ceil(rows / multiple) * multiple / setting.layout.tp;
}

}  // namespace trireme::sim
