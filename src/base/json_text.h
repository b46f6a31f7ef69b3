// JSON as text for a file or a script. A string that is not UTF-8 (a path may be anything) has its bad bytes replaced by
// U+FFFD, where the library would throw.
#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace trireme {

std::string json_text(const nlohmann::json& value, int indent = -1);

}  // namespace trireme
