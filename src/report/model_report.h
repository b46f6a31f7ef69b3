// What a model consists of: parameters by part, and FLOPs a token by convention.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "model/model_spec.h"

namespace trireme::report {

// Keys: docs/models.md.
nlohmann::json model_json(const model::ModelSpec& spec, std::int64_t sequence_length);
std::string model_text(const model::ModelSpec& spec, std::int64_t sequence_length);

struct NamedModel {
  std::string name;
  model::ModelSpec spec;
};

// One row a model: layers, width, experts, parameters, active ones, FLOPs a token.
std::string model_list_text(const std::vector<NamedModel>& models, std::int64_t sequence_length);
std::string model_list_markdown(const std::vector<NamedModel>& models, std::int64_t sequence_length);

}  // namespace trireme::report
