#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/json_text.h"
#include "base/log.h"
#include "model/model_table.h"
#include "search/validation/validation.h"
#include "trireme/commands.h"
#include "trireme/option_rules.h"
#include "trireme/published_figures.h"
#include "trireme/published_rows.h"
#include "trireme/standard_output.h"

namespace trireme::apps {

namespace {

struct Options {
  std::vector<std::string> rows;
  std::string models, stack;
  bool json = false;
};

void print(const nlohmann::json& j) {
  write_output(json_text(j, 1) + "\n");
}

void validate_command(const CLI::App& command, const Options& o, const Context& context) {
  const auto runs = std::count_if(o.rows.begin(), o.rows.end(), [](const std::string& p) { return is_run_path(p); });
  if (runs == static_cast<std::ptrdiff_t>(o.rows.size())) {
    refuse_given(command, {"--models"}, "is of a CSV file of rows: a run's file has its own model");
    const std::vector<search::Figure> figures = predict_figures(o.rows, o.stack, context);
    if (o.json) return print(search::to_json(figures));
    write_output(search::to_text(figures));
    return;
  }
  if (o.rows.size() > 1)
    throw ConfigError({.key = "ROWS",
                       .value = o.rows[1],
                       .allowed = "one CSV file of rows, or any number of runs' files and folders"});
  const PublishedRows rows(context, o.rows, o.models);
  const auto result = search::validate(rows.prepared(), choose_stack_profile(context, o.stack));
  if (o.json) return print(search::to_json(result));
  write_output(search::to_text(result));
}

}  // namespace

void add_validate_command(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("validate", "Predict published measurements and print the errors.");
  command
      ->add_option("ROWS", options->rows,
                   "CSV file of measurements (docs/validation.md); or runs' files with a published figure, and "
                   "folders of them (configs/runs/published)")
      ->required();
  command->add_option("--models", options->models,
                      "CSV file of architectures (default: model_configs.csv beside ROWS)");
  command->add_option("--stack", options->stack,
                      "stack profile: a file, a name, or \"uncalibrated\" (default: published)");
  command->add_flag("--json", options->json, "print one JSON object");
  command->callback([command, options, &context] { validate_command(*command, *options, context); });
}

}  // namespace trireme::apps
