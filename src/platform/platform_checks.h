// What a platform must satisfy whatever file it came from.
#pragma once
#include <string>

#include "platform/platform_spec.h"

namespace trireme::platform {

// ConfigError naming the table: columns of different lengths, values that are not positive, slow-downs below 1, no curve
// for a kind of operator, no link.
void check(const PlatformSpec& spec, const std::string& file_name);

}  // namespace trireme::platform
