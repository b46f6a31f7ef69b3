#include <cstdio>
#include <memory>

#include "base/log.h"
#include "model/model_table.h"
#include "search/validation/validation.h"
#include "trireme/commands.h"
#include "trireme/published_rows.h"

namespace trireme::apps {

namespace {

struct Options {
  std::string rows, models, stack;
  bool json = false;
};

void validate_command(const Options& o, const Context& context) {
  const PublishedRows rows(context, {o.rows}, o.models);
  const auto result = search::validate(rows.prepared(), choose_stack_profile(context, o.stack));
  std::fputs(o.json ? (search::to_json(result).dump(1) + "\n").c_str() : search::to_text(result).c_str(), stdout);
}

}  // namespace

void add_validate_command(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("validate", "Predict published measurements and print the errors.");
  command->add_option("ROWS", options->rows, "CSV file of measurements (docs/validation.md)")->required();
  command->add_option("--models", options->models,
                      "CSV file of architectures (default: model_configs.csv beside ROWS)");
  command->add_option("--stack", options->stack,
                      "stack profile: a file, a name, or \"uncalibrated\" (default: published)");
  command->add_flag("--json", options->json, "print one JSON object");
  command->callback([options, &context] { validate_command(*options, context); });
}

}  // namespace trireme::apps
