#include "trireme/option_rules.h"

#include <CLI/CLI.hpp>

#include "base/errors.h"

namespace trireme::apps {

void refuse_given(const CLI::App& command, std::initializer_list<const char*> options, const std::string& why,
                  const std::string& file) {
  for (const char* option : options)
    if (command.count(option) > 0) throw ConfigError({.file = file, .key = option, .allowed = why});
}

}  // namespace trireme::apps
