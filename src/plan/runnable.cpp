#include "plan/runnable.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/errors.h"
#include "plan/layout_keys.h"

namespace trireme::plan {

namespace {

[[noreturn]] void refuse(const RunSpec& run, const RefusedKey& refused) {
  throw ConfigError(
      {.file = run.file,
       .key = refused.key,
       .value = refused.value,
       .allowed = fmt::format("{} in a training run (`trireme plan --model` answers for more)", refused.wanted)});
}

}  // namespace

void refuse_unrunnable(const RunSpec& run) {
  for (const RefusedKey& refused : refused_keys(run.layout)) refuse(run, refused);
}

void refuse_unplannable(const RunSpec& run) {
  for (const RefusedKey& refused : refused_keys(run.layout))
    if (!refused.lowered) refuse(run, refused);
}

bool has_plan_of_segments(const LayoutSpec& layout) {
  return std::ranges::all_of(refused_keys(layout), &RefusedKey::lowered);
}

}  // namespace trireme::plan
