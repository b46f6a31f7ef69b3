// What a run leaves in its folder, as `trireme report` reads it.
#include <nlohmann/json.hpp>

#include "fuzz/format.h"
#include "report/html_page.h"
#include "report/report_fixture.h"
#include "report/run_report.h"
#include "report/trace.h"

namespace trireme::fuzz {
namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& path) {
  return source_file(path);  // an absolute path stays as it is
}

constexpr const char* metrics =
    "{\"step\": 1, \"loss\": 5.5, \"tokens_per_s\": 80, \"measured_step_s\": 12}\n"
    "{\"step\": 2, \"loss\": 5.0, \"tokens_per_s\": 90, \"eval_loss\": 4.75, \"bigram_loss\": 4.5}\n";

// A good run folder; its plan.json and so on are what is mutated.
fs::path good_folder() {
  const fs::path folder = scratch_folder() / "run";
  if (fs::exists(folder)) return folder;
  fs::create_directories(folder);
  plan::write_plan(folder, report::small_plan());
  plan::write_prediction(folder, report::small_prediction());
  for (const auto& m : report::small_measurement()) plan::write_measured(folder, m);
  write_file(folder / "metrics.jsonl", metrics);
  return folder;
}

Format with_file(const std::string& name, const std::string& file, std::vector<std::string> words) {
  const std::string good = content(good_folder() / file);
  Format out{.name = name, .seeds = {good}, .words = std::move(words)};
  for (std::string& seed : kept_seeds(name)) out.seeds.push_back(std::move(seed));
  out.read = [good, file](const std::string& text) {
    struct Restore {
      fs::path path;
      const std::string& good;
      ~Restore() { write_file(path, good); }
    } restore{good_folder() / file, good};
    write_file(restore.path, text);
    const report::RunReport r = report::make_run_report(good_folder());
    const std::string as_text = report::run_text(r);
    const auto measured = r.measured_timelines();
    report::html_page({.title = "fuzz", .text = as_text, .plan = r.plan, .predicted = r.prediction, .measured = measured, .report = &r});
    report::trace_json(r.plan, {{"predicted", r.prediction.ranks}, {"measured", measured}});
    report::run_json(r).dump();
  };
  return out;
}

}  // namespace

std::vector<Format> run_folder_formats() {
  return {with_file("plan_json", "plan.json", {"\"id\": 1000000,", "null", "[]", "\"mb\": -1,", "\"waits\": [7],"}),
          with_file("predicted_json", "predicted.json", {"null", "[]", "1e999", "\"spans\": [],"}),
          with_file("measured_json", "measured/rank-00000.json", {"null", "[]", "\"rank\": -1,", "\"spans\": [],"}),
          with_file("metrics_jsonl", "metrics.jsonl", {"NaN", "null", "\"step\": -1,", "{\"step\": 3}\n"})};
}

}  // namespace trireme::fuzz
