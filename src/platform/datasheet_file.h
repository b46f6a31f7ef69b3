// The [datasheet] table of a platform file: units in the keys, strict.
#pragma once
#include <string>

#include "base/config_table.h"
#include "platform/datasheet.h"

namespace trireme::platform {

Datasheet read_datasheet(ConfigTable table);
std::string to_toml(const Datasheet& sheet);  // "[datasheet]" and its sub-tables

// ConfigError naming the key: no peak or an unknown format, a bandwidth that is not positive, levels that shrink.
void check_datasheet(const Datasheet& sheet, const std::string& file_name);

}  // namespace trireme::platform
