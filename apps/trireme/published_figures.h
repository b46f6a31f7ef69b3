// Runs' files with a [published] table: the run that each figure is of, as a question, and what is predicted of it.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "plan/run_spec.h"
#include "search/published/figure.h"
#include "trireme/question_choice.h"

namespace trireme::apps {

// `stack`: in place of the file's own; empty: that.
ChosenQuestion choose_published(const plan::RunSpec& run, const std::string& stack, const Context& context);

// Whether `validate` is given runs rather than rows: a folder, or a TOML file.
bool is_run_path(const std::filesystem::path& path);

// Of files, and of all TOML files in folders, by name. ConfigError for a file without a figure, a folder without files.
std::vector<search::Figure> predict_figures(const std::vector<std::string>& paths, const std::string& stack,
                                            const Context& context);

}  // namespace trireme::apps
