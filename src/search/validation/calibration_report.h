// A calibration with its residuals, as text and JSON.
#pragma once
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "search/validation/calibration.h"

namespace trireme::search {

nlohmann::json to_json(const Calibration& calibration, const std::vector<PreparedRow>& rows);
std::string to_text(const Calibration& calibration, const std::vector<PreparedRow>& rows);

}  // namespace trireme::search
