// How a run's rows were spread over the experts, from metrics.jsonl ("router_load", docs/metrics.md).
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace trireme::report {

// Of one logged step, by MoE layer.
struct RouterPoint {
  std::int64_t step = 0;
  std::vector<double> max_over_mean, min_over_mean, cv;
  bool operator==(const RouterPoint&) const = default;
};

struct RouterHistory {
  int first_layer = 0;
  std::vector<RouterPoint> points;              // by ascending step; empty: a run without experts, or of before
  std::int64_t rows_step = 0;                   // the last step whose rows were written down
  std::vector<std::vector<std::int64_t>> rows;  // of that step, by MoE layer and expert; empty: of none
  bool operator==(const RouterHistory&) const = default;
};

// Lines without the key are passed over, and so is a last line that is cut. A step that occurs again replaces the earlier
// one. ConfigError with file and line where the key holds something else, or another number of layers than before.
RouterHistory read_router_history(const std::filesystem::path& metrics_file);

std::string router_text(const RouterHistory& history);  // a table by layer; empty where there is nothing
// null where there is nothing. Of a long run at most 400 points.
nlohmann::json router_json(const RouterHistory& history);

// The page's section: a script that reads the report's JSON (key "router") and draws it below the others.
extern const char* const router_section;

}  // namespace trireme::report
