// The operators of a setting's layers and ends on one rank.
#pragma once
#include "model/description/operator.h"
#include "sim/estimate/setting.h"

namespace trireme::sim {

using model::CollectiveKind;
using model::num_operator_passes;
using model::Operator;
using model::OperatorKind;
using model::OperatorList;
using model::OperatorPass;
using model::Part;

// Tokens of a micro-batch on a rank: after context parallelism, and where sequence parallelism splits them.
struct TokenCounts {
  double attention = 0;  // sequences * length / cp
  double residual = 0;   // of norms and residuals: / tp with sequence parallelism
};
TokenCounts token_counts(const Setting& setting);

// All passes of one layer; of MTP layers (num_layers and up) without their projections.
void add_layer_work(const Setting& setting, int layer, OperatorList& out);
void add_embedding_work(const Setting& setting, OperatorList& out);
void add_head_work(const Setting& setting, OperatorList& out);
void add_mtp_projection_work(const Setting& setting, OperatorList& out);

// Whether recomputation runs a part's forward again.
bool recomputes(const plan::RecomputeSet& set, Part part, bool moe_layer);

}  // namespace trireme::sim
