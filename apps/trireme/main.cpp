#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <sstream>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "base/edit_distance.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/printable.h"
#include "trireme/commands.h"
#include "trireme/process_start.h"
#include "trireme/standard_output.h"
#include "trireme/version.h"

extern char** environ;

namespace {

std::map<std::string, std::string> read_environment() {
  std::map<std::string, std::string> out;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string entry = *at;
    const auto equals = entry.find('=');
    if (equals != std::string::npos) out[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return out;
}

// The library begins with "filesystem error: ", which says nothing.
std::string words(const std::system_error& error) {
  const std::string text = error.what(), prefix = "filesystem error: ";
  return text.rfind(prefix, 0) == 0 ? text.substr(prefix.size()) : text;
}

// CLI11 says of a word that is no command only that one is required.
void check_command(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.size() < 2 || arguments[1].empty() || arguments[1].starts_with('-')) return;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) names.push_back(command->get_name());
  const std::string& word = arguments[1];
  if (std::ranges::find(names, word) != names.end()) return;
  const std::string near = trireme::nearest_key(word, names);
  std::string allowed = fmt::format("must be one of {}{}", fmt::join(names, ", "), near.empty() ? "" : fmt::format(" (did you mean {}?)", near));
#if !TRIREME_WITH_TORCH
  for (const char* running : {"data", "probe", "train", "rehearse", "evaluate", "generate", "convert"})
    if (word == running) allowed = "this build has the planning half alone: it was built without torch (docs/install.md)";
#endif
  throw trireme::ConfigError({.key = "command", .value = word, .allowed = allowed});
}

// Runs the command, too.
void parse(CLI::App& app, const trireme::apps::Context& context) {
  std::ostringstream help, errors;
  try {
    std::vector<char*> words;
    for (const std::string& word : context.arguments) words.push_back(const_cast<char*>(word.c_str()));
    app.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::CallForHelp& e) {
    app.exit(e, help, errors);
  } catch (const CLI::CallForAllHelp& e) {
    app.exit(e, help, errors);
  } catch (const CLI::CallForVersion& e) {
    app.exit(e, help, errors);
  }
  trireme::apps::write_output(help.str());
}

}  // namespace

int main(int argc, char** argv) {
  using namespace trireme;
  apps::put_process_in_order();
  apps::Context context{.arguments = {argv, argv + argc}, .environment = read_environment()};
  set_up_log({});

  CLI::App app{"Plans and trains Mixture-of-Experts language models on pipeline x expert x data ranks."};
  app.name("trireme");
  app.set_version_flag("--version", "trireme " + apps::program_version());
  app.require_subcommand(1);
  app.footer("Each command has its own --help. Start with: trireme plan configs/runs/quickstart.toml");
  apps::add_plan_command(app, context);
  apps::add_design_command(app, context);
  apps::add_report_command(app, context);
  apps::add_validate_command(app, context);
  apps::add_calibrate_command(app, context);
  apps::add_model_command(app, context);
#if TRIREME_WITH_TORCH
  apps::add_data_command(app, context);
  apps::add_probe_command(app, context);
  apps::add_train_command(app, context);
  apps::add_rehearse_command(app, context);
  apps::add_evaluate_command(app, context);
  apps::add_generate_command(app, context);
  apps::add_convert_command(app, context);
#endif

  try {
    check_command(app, context.arguments);
    apps::check_thread_variables(context.environment);
    parse(app, context);
    return context.exit_code;
  } catch (const CLI::ParseError& e) {
    std::fprintf(stderr, "trireme: error: %s (see --help)\n", printable(e.what()).c_str());
    return exit_bad_input;
  } catch (const ConfigError& e) {
    std::fprintf(stderr, "trireme: error: %s\n", e.what());
    return exit_bad_input;
  } catch (const RuntimeFailure& e) {
    std::fprintf(stderr, "trireme: failed: %s\n", e.what());
    return exit_runtime_failure;
  } catch (const std::system_error& e) {
    const bool bad_input = is_bad_path(e.code()), no_thread = e.code() == std::errc::resource_unavailable_try_again;
    std::fprintf(stderr, "trireme: %s: %s\n", bad_input ? "error" : "failed", no_thread ? apps::no_further_thread : printable(words(e)).c_str());
    return bad_input ? exit_bad_input : exit_runtime_failure;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "trireme: failed: out of memory\n");
    return exit_runtime_failure;
  } catch (const std::exception& e) {
    const std::string text = e.what();  // without the frames that libtorch adds
    std::fprintf(stderr, "trireme: internal error: %s\n", printable(text.substr(0, text.find("\nException raised from "))).c_str());
    return exit_bug;
  }
}
