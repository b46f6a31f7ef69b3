// Patterns by the name that a config gives.
#pragma once
#include <string>
#include <vector>

#include "plan/all_to_all/pattern.h"

namespace trireme::plan {

std::vector<std::string> pattern_names();
// ConfigError (key layout.all_to_all) for an unknown name.
Pattern make_pattern(const std::string& name, int size);

}  // namespace trireme::plan
