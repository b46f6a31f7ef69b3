// Where the files lie that come with Trireme: models, platforms and stack profiles that commands take by name.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "trireme/context.h"

namespace trireme::apps {

// The folder TRIREME_CONFIGS of the environment; else share/trireme/configs or configs beside or above the program;
// else configs in the working directory. ConfigError where none has a platforms folder.
std::filesystem::path config_folder(const Context& context);

// Of the .toml files of one of its folders, in order.
std::vector<std::string> names_in(const std::filesystem::path& folder);

}  // namespace trireme::apps
