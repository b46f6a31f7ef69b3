// The version of the libraries, for programs that find them as a package (docs/install.md): that of project() in
// CMakeLists.txt. `trireme --version` says more: apps/trireme/version.h.
#pragma once
#include <string_view>

namespace trireme {

std::string_view version();  // "0.1.0"

}  // namespace trireme
