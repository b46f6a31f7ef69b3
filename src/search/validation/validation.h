// Published rows predicted and measured, side by side: each row, groups that may be ranked, and sums.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "search/validation/prediction.h"

namespace trireme::search {

struct RowResult {
  std::string id, unit;
  double predicted = 0, measured = 0;  // measured 0: blank in the table, predicted all the same
  std::string skipped;  // why; empty: predicted
  std::vector<std::string> assumptions;
  std::string model, device, stack, kind;  // kind: "time" or "memory"
  int devices = 0;
  bool calibrated = false;  // the profile knows the device and the stack
  double baseline = 0;      // of a constant utilisation: the median of the other rows of device, stack and format
  bool compared() const { return skipped.empty() && measured > 0; }
  double error() const { return predicted / measured - 1; }
};

struct ErrorSummary {
  int n = 0;
  double mape = 0, median_ape = 0;  // |predicted / measured - 1|
  double baseline_mape = 0;
};

// Rows of equal source, stack, model, hardware, devices, batch and sequence: layouts that compete.
struct GroupResult {
  std::string name;
  ErrorSummary errors;
  std::optional<double> spearman;     // of throughput; none below three rows
  std::optional<double> top1_regret;  // how much slower than the fastest the layout measured that is predicted fastest
};

struct ValidationResult {
  std::vector<RowResult> rows;                             // in file order
  std::vector<GroupResult> groups;                         // layouts that compete
  std::vector<GroupResult> by_stack, by_model, by_device;  // sums of time rows
  ErrorSummary all, time, memory, without_assumptions;
};

ValidationResult validate(const std::vector<PreparedRow>& rows, const platform::StackProfile& profile);

nlohmann::json to_json(const ValidationResult& result);  // the keys of docs/validation.md
std::string to_text(const ValidationResult& result);

}  // namespace trireme::search
