#include "trireme/shown_schedule.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/errors.h"
#include "plan/layout_schedule.h"
#include "plan/pipeline/schedule_file.h"
#include "plan/runnable.h"

namespace trireme::apps {

namespace {

// Data-parallel ranks of a layout that is only estimated.
int data_ranks(const plan::RunSpec& run, int ranks) {
  const plan::LayoutSpec& l = run.layout;
  const int others = l.pp * l.tp * l.cp;
  const auto fail = [&](const char* key, std::int64_t value, std::string allowed) {
    throw ConfigError({.file = run.file, .key = key, .value = fmt::format("{}", value), .allowed = std::move(allowed)});
  };
  if (ranks % others != 0 || (l.dp > 0 && ranks > 0 && ranks != others * l.dp))
    fail("--ranks", ranks, fmt::format("must be layout.pp x tp x cp ({}) times layout.dp", others));
  const int dp = l.dp > 0 ? l.dp : std::max(1, ranks / others);
  if (run.batch.global_batch % (run.batch.micro_batch * dp) != 0)
    fail("batch.global_batch", run.batch.global_batch,
         fmt::format("must be a multiple of batch.micro_batch ({}) times the data-parallel ranks ({})",
                     run.batch.micro_batch, dp));
  return dp;
}

}  // namespace

std::string shown_schedule(const plan::RunSpec& run, int ranks, const std::string& form) {
  const int dp = plan::has_plan_of_segments(run.layout) ? plan::resolve_mesh(run, ranks, plan::MeshUse::planned).dp
                                                        : data_ranks(run, ranks);
  const plan::Schedule schedule =
      plan::layout_schedule(run.layout, run.layout.pp, static_cast<int>(run.batch.num_micro_batches(dp)));
  return form == "csv" ? plan::to_csv(schedule) : plan::to_text(schedule);
}

}  // namespace trireme::apps
