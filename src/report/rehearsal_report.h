// What `trireme rehearse` says: a rehearsal beside its prediction. Every table and object names its figures as rehearsed or
// emulated: compute was waited for, so none of them is a training step's.
#pragma once
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "report/run_report.h"

namespace trireme::report {

struct RehearsalView {
  const RunReport& report;   // `compare` of the rehearsal's prediction and what it took
  double plan_step_s = 0;    // the plan's own prediction of a training step
  std::string load;          // how rows fell on experts, in words; empty: no experts are spread
  double buffer_bytes = 0;   // the highest of any rank's tensors
};

inline constexpr const char* rehearsed = "rehearsed";
// One line on top of text and page.
extern const char* const emulated_note;

std::string rehearsal_text(const RehearsalView& view);

// Keys: emulated (the note), step_s, predicted_step_s, error, plan_step_s, steps, bubble_fraction,
// exposed_all_to_all_fraction and the same with predicted_ (each {step, warm_up, steady, cool_down}), ranks (rank, stage,
// step_s and these four), kinds (kind, lane, count, seconds), phases (of exchanges), exposure
// (report/exposure_tables.h), load, buffer_bytes, about, mesh, schedule, num_micro_batches, all_to_all, platform.
nlohmann::json rehearsal_json(const RehearsalView& view);

}  // namespace trireme::report
