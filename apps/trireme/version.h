// Which Trireme this is.
#pragma once
#include <string>

namespace trireme::apps {

// The project's version and, where the source was a git checkout when it was built, what `git describe` said:
// "0.1.0 (4c516e4-dirty)".
std::string program_version();

}  // namespace trireme::apps
