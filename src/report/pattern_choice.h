// What a run's exchanges of experts go by, and what else they could have gone by.
#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "plan/plan.h"
#include "plan/run_files.h"

namespace trireme::report {

// "halo" as the run says; "halo (auto: predicted 1.2 ms a layer and micro-batch; runner-up flat, 1.9 ms)" as chosen;
// "flat (kept from the run's start; auto would choose halo, ...)".
std::string pattern_text(const plan::Plan& plan, const plan::Prediction& prediction);

// pattern, chosen (whether the run left it to the plan), candidates ({pattern, layer_s}, by price).
nlohmann::json pattern_json(const plan::Plan& plan, const plan::Prediction& prediction);

}  // namespace trireme::report
