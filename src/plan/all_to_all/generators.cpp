#include "plan/all_to_all/generators.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "plan/all_to_all/flat.h"

namespace trireme::plan {

std::vector<std::string> pattern_names() { return {"flat"}; }

Pattern make_pattern(const std::string& name, int size) {
  if (name == "flat") return flat(size);
  throw ConfigError({.key = "layout.all_to_all", .value = name,
                     .allowed = fmt::format("one of {}", fmt::join(pattern_names(), ", "))});
}

}  // namespace trireme::plan
