#include "trireme/published_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "trireme/config_folder.h"

namespace trireme::apps {

namespace fs = std::filesystem;

PublishedRows::PublishedRows(const Context& context, const std::vector<std::string>& files, const std::string& models)
    : platforms_(config_folder(context) / "platforms") {
  const model::ModelCatalog catalog(config_folder(context) / "models");
  fs::path table = models;
  if (models.empty()) table = fs::path(files.at(0)).parent_path() / "model_configs.csv";
  model::ModelTable known;
  if (!models.empty() || fs::exists(table)) known = model::read_model_table_csv(table, &catalog);
  const search::FindModel find_model = [&](const std::string& name, std::string& reason) {
    model::TableModel found = known.find(name);
    if (!found.spec) found.spec = catalog.find(name);
    reason = found.reason;
    return found.spec;
  };
  std::vector<search::Row> read, references;
  for (const std::string& file : files) {
    const auto more = search::read_rows(file);
    read.insert(read.end(), more.begin(), more.end());
  }
  const fs::path recipes = fs::path(files.at(0)).parent_path() / "throughput.csv";
  if (files.size() == 1 && fs::exists(recipes) && fs::path(files[0]).filename() != recipes.filename())
    references = search::read_rows(recipes);
  search::borrow_blanks(read, references, find_model);
  prepared_ = search::prepare(read, find_model, platforms_);
}

platform::StackProfile choose_stack_profile(const Context& context, const std::string& given) {
  if (given == "uncalibrated") return {};
  if (given.find('/') != std::string::npos || given.ends_with(".toml")) return platform::load_stack_profile(given);
  const fs::path folder = config_folder(context) / "stacks",
                 file = folder / ((given.empty() ? "published" : given) + ".toml");
  if (given.empty() && !fs::exists(file)) return {};
  if (!fs::exists(file))
    throw ConfigError(
        {.key = "--stack",
         .value = given,
         .allowed = fmt::format("a profile's file, \"uncalibrated\", or one of {} (each row takes the entry "
                                "of its own source)",
                                fmt::join(names_in(folder), ", "))});
  return platform::load_stack_profile(file);
}

}  // namespace trireme::apps
