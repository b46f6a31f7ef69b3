#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/json_text.h"
#include "base/log.h"
#include "search/validation/calibration.h"
#include "search/validation/calibration_report.h"
#include "trireme/commands.h"
#include "trireme/named_outputs.h"
#include "trireme/positive_number.h"
#include "trireme/published_rows.h"
#include "trireme/standard_output.h"

namespace trireme::apps {

namespace {

struct Options {
  std::vector<std::string> rows;
  std::string models, out;
  int folds = 5;
  bool json = false, no_models = false;
};

void refuse_without_times(const std::vector<search::PreparedRow>& rows, const std::vector<std::string>& files) {
  std::string reason;
  for (const search::PreparedRow& p : rows) {
    if (p.has_measured_time()) return;
    if (reason.empty() && !p.resolved.skipped.empty())
      reason = fmt::format(" (row {}: {})", p.row.id, p.resolved.skipped);
  }
  throw ConfigError({.file = fmt::format("{}", fmt::join(files, ", ")),
                     .allowed = "none of its rows has a measured speed that can be predicted" + reason});
}

bool is_profile(const std::filesystem::path& file) {
  try {
    platform::load_stack_profile(file);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

void calibrate_command(const Options& o, const Context& context) {
  const PublishedRows rows(context, o.rows, o.models);
  refuse_without_times(rows.prepared(), o.rows);
  std::vector<NamedInput> read = {{"--models", o.models}};
  for (const std::string& file : o.rows) read.push_back({"ROWS", file});
  check_outputs({{"--out", o.out, "a stack profile", is_profile}}, read);
  auto calibration = search::calibrate(
      rows.prepared(), {.leave_models_out = !o.no_models, .folds = o.folds, .progress = [](const std::string& text) {
                          spdlog::info("{}", text);
                        }});
  if (!o.out.empty()) {
    calibration.profile.name = std::filesystem::path(o.out).stem().string();
    platform::save_stack_profile(calibration.profile, o.out);
  }
  write_output(o.json ? (json_text(search::to_json(calibration, rows.prepared()), 1) + "\n")
                    : search::to_text(calibration, rows.prepared()));
}

}  // namespace

void add_calibrate_command(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("calibrate", "Fit a stack profile to published measurements, with held-out errors.");
  command->add_option("ROWS", options->rows, "CSV files of measurements (docs/validation.md)")->required();
  command->add_option("--models", options->models,
                      "CSV file of architectures (default: model_configs.csv beside ROWS)");
  command->add_option("--out", options->out, "write the profile to this file");
  command->add_option("--folds", options->folds, "fits without every n-th row; 0: none")->check(whole_number(0, 1000));
  command->add_flag("--no-models", options->no_models, "no fits with one model left out");
  command->add_flag("--json", options->json, "print one JSON object");
  command->callback([options, &context] { calibrate_command(*options, context); });
}

}  // namespace trireme::apps
