// The version of this build: that of project() in CMakeLists.txt.
#pragma once
#include <string_view>

namespace trireme {

std::string_view version();  // "0.1.0"

}  // namespace trireme
