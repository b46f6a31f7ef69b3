// The subcommands of `trireme`. Each registers itself with its options and, when chosen, does its work in its callback;
// errors are thrown and main turns them into one line and an exit code (base/errors.h).
#pragma once
#include <CLI/CLI.hpp>

#include "trireme/context.h"

namespace trireme::apps {

void add_plan_command(CLI::App& app, Context& context);
void add_design_command(CLI::App& app, Context& context);
void add_report_command(CLI::App& app, Context& context);
void add_validate_command(CLI::App& app, Context& context);
void add_calibrate_command(CLI::App& app, Context& context);
void add_model_command(CLI::App& app, Context& context);
void add_data_command(CLI::App& app, Context& context);    // data_command_torch.cpp
void add_probe_command(CLI::App& app, Context& context);   // probe_command_torch.cpp
void add_train_command(CLI::App& app, Context& context);   // train_command_torch.cpp
void add_rehearse_command(CLI::App& app, Context& context); // rehearse_command_torch.cpp
void add_evaluate_command(CLI::App& app, Context& context); // evaluate_command_torch.cpp
void add_generate_command(CLI::App& app, Context& context); // generate_command_torch.cpp
void add_convert_command(CLI::App& app, Context& context); // convert_command_torch.cpp: to and from Hugging Face folders

}  // namespace trireme::apps
