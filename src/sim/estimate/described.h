// A setting as the description of its layers sees it (model/description): what one rank of a stage has of it.
#pragma once
#include <string>

#include "model/description/describe.h"
#include "sim/estimate/setting.h"

namespace trireme::sim {

using model::CollectiveKind;
using model::num_operator_passes;
using model::Operator;
using model::OperatorKind;
using model::OperatorList;
using model::OperatorPass;
using model::Part;
using model::recomputes;
using model::TapeMemory;

// What a pattern of plan/all_to_all asks of a layer around it.
model::RowExchange row_exchange(const std::string& pattern);

// `load_factor`: rows of the heaviest rank over the mean; 1 where the kernels pad experts to a fixed number of rows.
model::Share rank_share(const Setting& setting, const model::Kernels& kernels, double load_factor);

// Holds references to all three.
model::Subject subject_of(const Setting& setting, const model::Kernels& kernels, const model::Share& share,
                          plan::RecomputeSet recompute = {});

// Of a micro-batch between two stages, all tensor ranks' parts together.
double stage_message_bytes(const Setting& setting);

// All passes of one layer; of MTP layers (num_layers and up) without their projections. A search takes the passes and
// launches of plain kernels, whatever its own keep in memory, with rows of the heaviest rank.
void add_layer_operators(const Setting& setting, int layer, OperatorList& out);
void add_embedding_operators(const Setting& setting, OperatorList& out);
void add_head_operators(const Setting& setting, OperatorList& out);
void add_mtp_operators(const Setting& setting, OperatorList& out);

}  // namespace trireme::sim
