// A published row as a setting that can be predicted: sizes from the row, what it leaves open from its stack's defaults
// (an assumption), conventions converted.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "model/model_spec.h"
#include "search/validation/row.h"
#include "search/validation/stack_facts.h"
#include "sim/estimate/setting.h"

namespace trireme::search {

struct ResolvedRow {
  sim::Setting setting;
  StackFacts facts;
  std::string platform;
  double flops_per_token = 0;            // by the source's convention
  double counted_share = 1;              // of the setting's tokens that the source counts (copies of data count once)
  std::vector<std::string> assumptions;  // what the source does not say
  std::string skipped;                   // why it can't be predicted; empty: it can
};

// Gives a model by a source's name, or says why there is none.
using FindModel = std::function<std::optional<model::ModelSpec>(const std::string& name, std::string& reason)>;

ResolvedRow resolve(const Row& row, const FindModel& find_model);

// "GPT h=2048 L=24 a=16": GPT-2's architecture in other sizes. Empty where the name has another shape.
std::optional<model::ModelSpec> gpt_by_sizes(const std::string& name);

// Pipeline layouts in Megatron's notation ("Et*4|(t*4|)*14tmL"): layers of each piece; empty where there is none in the
// text, or where it has another number of pieces.
std::vector<std::int64_t> pipeline_layout(const std::string& text, int pieces, int num_layers);

// Layers of each piece where they don't divide: as many on each as the first need, the last fewer (room for the head
// and MTP blocks), as Megatron-Bridge cuts DeepSeek-V3. Empty where they divide.
std::vector<std::int64_t> uneven_pieces(int pieces, int num_layers, int mtp_depth);

}  // namespace trireme::search
