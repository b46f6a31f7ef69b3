// Rows predicted: a row's setting with its schedule made ready once, then priced under any calibration.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "platform/platform_spec.h"
#include "platform/stack_profile.h"
#include "search/validation/resolve_row.h"
#include "sim/estimate/step_model.h"

namespace trireme::search {

// Platform files of a folder by name, each read once.
class PlatformLibrary {
 public:
  explicit PlatformLibrary(std::filesystem::path folder) : folder_(std::move(folder)) {}
  const platform::PlatformSpec& get(const std::string& name);  // ConfigError where there is no such file

 private:
  std::filesystem::path folder_;
  std::map<std::string, platform::PlatformSpec> loaded_;
};

// A row that can be predicted, or why it can't (`resolved.skipped`).
struct PreparedRow {
  Row row;
  ResolvedRow resolved;
  const platform::PlatformSpec* platform = nullptr;
  std::shared_ptr<const sim::StepModel> model;  // of time rows

  bool is_time() const { return row.quantity != Quantity::allocated_GiB && row.quantity != Quantity::reserved_GiB; }
  bool has_measured_time() const { return resolved.skipped.empty() && is_time() && row.measured > 0; }
  const std::string& device() const { return platform->device.name; }
};

// What a row leaves blank of recomputation and overlap is taken from the nearest of `references` (and of the rows) that
// has the same model, hardware, format and layout and says it: the same recipe in another release. It stays an
// assumption.
void borrow_blanks(std::vector<Row>& rows, const std::vector<Row>& references, const FindModel& find_model);

// Rows with equal settings share a step model, those with equal schedules a grid.
std::vector<PreparedRow> prepare(const std::vector<Row>& rows, const FindModel& find_model, PlatformLibrary& platforms);

// In the row's unit. Time rows from the step model; memory rows from the memory estimate.
double predict(const PreparedRow& row, const platform::DeviceEfficiency& device, const platform::StackBehaviour& stack,
               sim::GridWorkspace& workspace);
double predict_memory(const PreparedRow& row);

// What a constant share of peak FLOPs predicts, in the row's unit.
double predict_by_utilisation(const PreparedRow& row, double utilisation);
double utilisation_of(const PreparedRow& row);  // that the measured value means

}  // namespace trireme::search
