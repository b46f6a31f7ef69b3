// Predicted against measured, from the files of a run's folder (plan/run_files.h, metrics.jsonl).
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "plan/run_files.h"
#include "report/exposure.h"
#include "report/metrics.h"
#include "report/router_history.h"
#include "report/run_facts.h"

namespace trireme::report {

struct Pair {
  double predicted = 0, measured = 0;  // measured 0: not measured
  double error() const { return measured == 0 ? 0 : (predicted - measured) / measured; }
  bool operator==(const Pair&) const = default;
};

struct KindRow {
  std::string kind;
  plan::Lane lane = plan::Lane::compute;
  int count = 0;  // in a step, over the ranks compared
  Pair seconds;   // likewise
};

// A phase of one kind of exchange.
struct PhaseRow {
  std::string kind;   // "all_to_all forward dispatch"
  std::string part;   // of what travels: "rows"
  std::string phase;  // "remote"
  int count = 0;      // in a step, over the ranks compared
  Pair seconds;       // likewise, waiting for partners included; phases side by side add up to more than their action
};

struct RankRow {
  int rank = 0, stage = 0;
  Pair step_s;
  Pair compute_s;     // the compute lane's actions
  Pair idle_s;        // the rest of the step on the compute lane
  Pair peak_bytes;
};

struct RunReport {
  plan::Plan plan;
  plan::Prediction prediction;
  std::vector<plan::MeasuredRank> measured;  // may be empty, or of some ranks only
  Metrics metrics;
  std::vector<Fact> facts;                   // run_facts()
  RouterHistory router;

  // Over the ranks that were measured.
  Pair step_s;                    // measured: the longest median of any rank
  double repriced_step_s = 0;     // predicted again with the expert load that was measured; 0: nobody did (needs `sim`)
  Pair peak_bytes;                // highest of any rank, in steps without a checkpoint's copy
  Pair checkpoint_peak_bytes;     // likewise in steps with one; predicted 0: the run saves none between its steps
  Pair checkpoint_copy_bytes;     // the largest copy
  std::vector<KindRow> kinds;
  std::vector<PhaseRow> phases;   // of the exchanges of experts; empty for a run of before they were written down
  std::vector<KindRow> segments;  // compute actions by segment, both passes
  std::vector<RankRow> ranks;
  // Of the ranks compared, ascending; measured may be empty.
  std::vector<RankExposure> predicted_exposure, measured_exposure;

  // Each moved to rank 0's clock.
  std::vector<plan::RankTimeline> measured_timelines() const;
};

// The comparison alone: everything but what only a run's folder tells (metrics, facts, router). The measurements fit the plan.
RunReport compare(plan::Plan plan, plan::Prediction prediction, std::vector<plan::MeasuredRank> measured);

// ConfigError for a folder without a plan or a prediction, or with measurements that don't fit the plan.
RunReport make_run_report(const std::filesystem::path& run_folder);

std::string run_text(const RunReport& report);
// Keys: step_s, repriced_step_s (null where not known), peak_memory_bytes (each {predicted, measured, error}), kinds, phases, segments, ranks, bubble_fraction,
// exposed_all_to_all_fraction, exposure (report/exposure_tables.h), loss, router, throughput, about (the facts by name).
nlohmann::json run_json(const RunReport& report);

}  // namespace trireme::report
