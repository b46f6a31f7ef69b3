#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/json_text.h"
#include "model/model_catalog.h"
#include "report/model_report.h"
#include "trireme/commands.h"
#include "trireme/config_folder.h"
#include "trireme/option_rules.h"
#include "trireme/positive_number.h"
#include "trireme/standard_output.h"

namespace trireme::apps {

namespace {

struct Options {
  std::string name;
  std::vector<std::string> set;
  std::int64_t sequence_length = 4096;
  bool json = false, markdown = false;
};

void list_models(const Options& o, const std::filesystem::path& folder) {
  const model::ModelCatalog catalog(folder);
  std::vector<report::NamedModel> models;
  for (const std::string& name : catalog.names()) models.push_back({name, catalog.model(name)});
  if (o.json) {
    nlohmann::json list = nlohmann::json::object();
    for (const report::NamedModel& m : models) list[m.name] = report::model_json(m.spec, o.sequence_length);
    write_output(json_text(list, 1) + "\n");
  } else {
    write_output(o.markdown ? report::model_list_markdown(models, o.sequence_length)
                            : report::model_list_text(models, o.sequence_length));
  }
}

void model_command(const CLI::App& command, const Options& o, const Context& context) {
  if (!o.name.empty()) refuse_given(command, {"--markdown"}, "is a table of all models: leave MODEL out");
  const std::filesystem::path folder = config_folder(context) / "models";
  if (o.name.empty() && !o.set.empty())
    throw ConfigError({.key = "--set", .value = o.set.front(), .allowed = "changes one model: name it as MODEL"});
  if (o.name.empty()) return list_models(o, folder);
  const model::ModelSpec spec = model::find_model(o.name, folder, o.set);
  const std::string text =
      o.json ? json_text(report::model_json(spec, o.sequence_length), 1) + "\n" : report::model_text(spec, o.sequence_length);
  write_output(text);
}

}  // namespace

void add_model_command(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("model", "Parameters and FLOPs of a model, or of all that come with Trireme");
  c->add_option("MODEL", options->name, "A name (deepseek_v3), a TOML file or a Hugging Face config.json; absent: all");
  c->add_option("--set", options->set, "KEY=VALUE: override a key of the model (model.num_layers=8); repeatable")
      ->allow_extra_args(false);
  c->add_option("--sequence-length", options->sequence_length, "Tokens of a sequence, for attention")
      ->check(whole_number(1, std::uint64_t{1} << 40))
      ->capture_default_str();
  CLI::Option* json = c->add_flag("--json", options->json, "Print one JSON object");
  c->add_flag("--markdown", options->markdown, "Print the list as a Markdown table")->excludes(json);
  c->callback([c, options, &context] { model_command(*c, *options, context); });
}

}  // namespace trireme::apps
