// What a run leaves in its folder, as `trireme report` reads it.
#include <nlohmann/json.hpp>

#include "fuzz/format.h"
#include "plan/run_spec.h"
#include "report/html_page.h"
#include "report/report_fixture.h"
#include "report/run_report.h"
#include "report/trace.h"

namespace trireme::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr const char* metrics =
    "{\"step\": 1, \"loss\": 5.5, \"tokens_per_s\": 80, \"measured_step_s\": 12}\n"
    "{\"step\": 2, \"loss\": 5.0, \"tokens_per_s\": 90, \"eval_loss\": 4.75, \"bigram_loss\": 4.5}\n"
    "{\"step\": 3, \"loss\": 4.5, \"router_load\": {\"first_layer\": 1, \"max_over_mean\": [2, 1.5], \"min_over_mean\": [0, 0.5], "
    "\"cv\": [0.5, 0.25], \"rows\": [[8, 0, 4], [6, 2, 4]]}}\n"
    "{\"step\": 4, \"loss\": 4.5, \"router_load\": {\"first_layer\": 1, \"max_over_mean\": [1, 1], \"min_over_mean\": [1, 1], "
    "\"cv\": [0, 0]}}\n";

constexpr const char* run_info =
    "{\"run\": \"3f2a00c41b77\", \"name\": \"quickstart\", \"sessions\": [{\"session\": \"000000000001\", \"started\": "
    "\"2026-12-01T10:00:00Z\", \"from_step\": 0, \"command\": [\"trireme\"], \"version\": \"0.1.0\"}]}\n";

// A good run folder; its plan.json and so on are what is mutated.
fs::path good_folder() {
  const fs::path folder = scratch_folder() / "run";
  if (fs::exists(folder)) return folder;
  fs::create_directories(folder);
  plan::write_plan(folder, report::small_plan());
  plan::write_prediction(folder, report::small_prediction());
  for (const auto& m : report::small_measurement()) plan::write_measured(folder, m);
  write_file(folder / "metrics.jsonl", metrics);
  write_file(folder / "run_info.json", run_info);
  write_file(folder / "run.toml", plan::to_toml(plan::load_run(std::string(TRIREME_SOURCE_DIR) + "/configs/runs/quickstart.toml")));
  return folder;
}

void read_folder() {
  const report::RunReport r = report::make_run_report(good_folder());
  const std::string as_text = report::run_text(r);
  const auto measured = r.measured_timelines();
  report::html_page({.title = "fuzz", .text = as_text, .plan = r.plan, .predicted = r.prediction, .measured = measured, .report = &r});
  report::trace_json(r.plan, {{"predicted", r.prediction.ranks}, {"measured", measured}});
  report::run_json(r).dump();
}

}  // namespace

std::vector<Format> run_folder_formats() {
  const auto in_folder = [](const char* name, const char* file, std::vector<std::string> words) {
    return with_file(name, good_folder() / file, std::move(words), read_folder);
  };
  return {in_folder("plan_json", "plan.json", {"\"id\": 1000000,", "null", "[]", "\"mb\": -1,", "\"waits\": [7],"}),
          in_folder("predicted_json", "predicted.json", {"null", "[]", "1e999", "\"spans\": [],"}),
          in_folder("measured_json", "measured/rank-00000.json", {"null", "[]", "\"rank\": -1,", "\"spans\": [],"}),
          in_folder("metrics_jsonl", "metrics.jsonl", {"NaN", "null", "\"step\": -1,", "{\"step\": 3}\n", "\"rows\":[[1]]"}),
          in_folder("run_info_json", "run_info.json", {"null", "[]", "\"sessions\":[]", "\"run\": 1,"}),
          in_folder("run_toml_of_a_run", "run.toml", {"[model.moe]", "name = \"\\u001b\"", "[[data.train]]"})};
}

}  // namespace trireme::fuzz
