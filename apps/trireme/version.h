// Which build of the program this is: what `trireme --version` prints and a run's run_info.json keeps. It changes with each
// commit, so it is the program's alone; a library's user has base/version.h.
#pragma once
#include <string>

namespace trireme::apps {

// The project's version and, where the source was a git checkout when it was built, what `git describe` said:
// "0.1.0 (4c516e4-dirty)".
std::string program_version();

}  // namespace trireme::apps
