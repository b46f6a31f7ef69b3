// Tables of a comparison as text. `measured_as` heads the columns of what was not predicted: "measured", "rehearsed".
#pragma once
#include <string>
#include <vector>

#include "report/run_report.h"

namespace trireme::report {

std::string measured_text(double value, std::string (*show)(double));  // "-" for 0
std::string kinds_text(const std::vector<KindRow>& rows, bool lanes, const std::string& measured_as = "measured");
std::string phases_text(const std::vector<PhaseRow>& rows, const std::string& measured_as = "measured");
// The compute lane of at most 16 ranks.
std::string strips_text(const RunReport& report, const std::string& measured_as = "measured");

}  // namespace trireme::report
