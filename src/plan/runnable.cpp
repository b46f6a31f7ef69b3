#include "plan/runnable.h"

#include <fmt/format.h>

#include "base/errors.h"
#include "plan/layout_keys.h"

namespace trireme::plan {

void refuse_unrunnable(const RunSpec& run) {
  for (const RefusedKey& refused : refused_keys(run.layout))
    throw ConfigError(
        {.file = run.file,
         .key = refused.key,
         .value = refused.value,
         .allowed = fmt::format("{} in a training run (`trireme plan --model` answers for more)", refused.wanted)});
}

}  // namespace trireme::plan
