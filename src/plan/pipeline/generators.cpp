#include "plan/pipeline/generators.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "plan/pipeline/gpipe.h"
#include "plan/pipeline/one_f_one_b.h"

namespace trireme::plan {

std::vector<std::string> schedule_names() { return {"gpipe", "1f1b"}; }

Schedule make_schedule(const std::string& name, int num_stages, int num_micro_batches) {
  if (name == "gpipe") return gpipe(num_stages, num_micro_batches);
  if (name == "1f1b") return one_f_one_b(num_stages, num_micro_batches);
  throw ConfigError({.key = "layout.schedule", .value = name,
                     .allowed = fmt::format("one of {}", fmt::join(schedule_names(), ", "))});
}

}  // namespace trireme::plan
