#include "trireme/published_figures.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/errors.h"
#include "search/layouts/given_layout.h"

namespace trireme::apps {

namespace fs = std::filesystem;

ChosenQuestion choose_published(const plan::RunSpec& run, const std::string& stack, const Context& context) {
  if (run.platform.empty())
    throw ConfigError(
        {.file = run.file, .key = "platform", .allowed = "is missing: the machine that the figure is of"});
  const plan::PublishedSpec& p = *run.published;
  QuestionOptions o{.platform = run.platform.string(), .stack = stack.empty() ? p.stack : stack, .devices = p.devices};
  for (const std::string& set : p.set) {
    if (set.starts_with("layout.") || set.starts_with("batch."))
      throw ConfigError(
          {.file = run.file, .key = "published.set", .value = set, .allowed = "the run's own tables say that"});
    // A file is relative to the run's, as its other paths.
    const auto is_kernels = [&](std::string_view key) { return set.starts_with(key) && set.ends_with(".toml"); };
    const std::size_t path = set.find('=') + 1;
    const bool file = is_kernels("kernels=") || is_kernels("memory_profile=");
    o.set.push_back(
        file ? set.substr(0, path) +
                   (fs::absolute(run.file).parent_path() / set.substr(path)).lexically_normal().string()
             : set);
  }
  ChosenQuestion chosen = choose_question(o, context, run.model);
  chosen.question = search::given_layout(run, p.devices, std::move(chosen.question));
  // What the file says is not assumed here.
  std::erase_if(chosen.assumptions,
                [](const std::string& a) { return a.starts_with("a global batch") || a.starts_with("sequences of"); });
  return chosen;
}

bool is_run_path(const fs::path& path) {
  return fs::is_directory(path) || path.extension() == ".toml";
}

std::vector<search::Figure> predict_figures(const std::vector<std::string>& paths, const std::string& stack,
                                            const Context& context) {
  std::vector<fs::path> files;
  for (const fs::path path : paths) {
    if (!fs::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    std::vector<fs::path> here;
    for (const auto& entry : fs::directory_iterator(path))
      if (entry.path().extension() == ".toml") here.push_back(entry.path());
    if (here.empty()) throw ConfigError({.file = path.string(), .allowed = "has no TOML file"});
    std::sort(here.begin(), here.end());
    files.insert(files.end(), here.begin(), here.end());
  }
  std::vector<search::Figure> out;
  for (const fs::path& file : files) {
    const plan::RunSpec run = plan::load_run(file);
    if (!run.published)
      throw ConfigError(
          {.file = file.string(), .key = "published", .allowed = "is missing: the figure to compare with"});
    const ChosenQuestion chosen = choose_published(run, stack, context);
    search::Figure figure = search::evaluate_figure(run, chosen.question);
    for (const std::string& a : chosen.assumptions) figure.assumed.push_back(a);
    out.push_back(std::move(figure));
  }
  return out;
}

}  // namespace trireme::apps
