// Fits a stack profile to published rows: eight parameters a device and three a stack, all of them together, each kept
// near its default by a prior. Row errors are logarithms of predicted over measured; outliers hardly count, and a stack
// counts as a hundred rows at most.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "platform/stack_profile.h"
#include "search/validation/prediction.h"

namespace trireme::search {

struct CalibrationOptions {
  int max_iterations = 60;
  bool leave_models_out = true;                      // one more fit a model, without its rows
  int folds = 5;                                     // and this many fits, each without every n-th row; 0: none
  std::function<void(const std::string&)> progress;  // a line of text; may be empty
};

struct Calibration {
  platform::StackProfile profile;
  // By row; 0 where the row was not fitted.
  std::vector<double> fitted, model_left_out, row_left_out;  // predictions in the row's unit
};

// Rows that can't be predicted, or hold no time, are passed over. Deterministic.
Calibration calibrate(const std::vector<PreparedRow>& rows, const CalibrationOptions& options);

}  // namespace trireme::search
