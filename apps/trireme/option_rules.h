// Options that have no meaning beside the others that were given: they are refused, and not left unheard.
#pragma once
#include <initializer_list>
#include <string>

namespace CLI {
class App;
}

namespace trireme::apps {

// ConfigError for the first of `options` that the command was given: "--threads: needs --search". `file`: of the run that
// is why, if any.
void refuse_given(const CLI::App& command, std::initializer_list<const char*> options, const std::string& why,
                  const std::string& file = "");

}  // namespace trireme::apps
