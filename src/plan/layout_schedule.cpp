#include "plan/layout_schedule.h"

#include <fmt/format.h>

#include "base/errors.h"
#include "plan/pipeline/generators.h"
#include "plan/pipeline/gpipe.h"

namespace trireme::plan {

Schedule layout_schedule(const LayoutSpec& l, int num_stages, int num_micro_batches) {
  if (const Schedule* grid = l.schedule_file.grid.get()) {
    if (grid->num_stages != num_stages || grid->num_micro_batches != num_micro_batches)
      throw ConfigError({.key = "layout.schedule_file",
                         .value = l.schedule_file.path,
                         .allowed = fmt::format(
                             "is a schedule of {} stages and {} micro-batches of a data rank; the run has {} and {}",
                             grid->num_stages, grid->num_micro_batches, num_stages, num_micro_batches)});
    return *grid;
  }
  return make_schedule(l.schedule, {.num_stages = num_stages,
                                    .num_micro_batches = num_micro_batches,
                                    .num_chunks = num_chunks(l),
                                    .micro_batch_group = l.micro_batch_group});
}

Schedule evaluation_schedule(const LayoutSpec& l, int num_stages, int num_micro_batches) {
  const Schedule* grid = l.schedule_file.grid.get();
  return forward_only(num_stages, num_micro_batches, num_chunks(l),
                      grid ? grid->pieces : stage_map(l.schedule, num_stages));
}

int num_chunks(const LayoutSpec& l) {
  return l.schedule_file.grid ? l.schedule_file.grid->num_chunks : chunks_a_stage(l.schedule, l.virtual_stages);
}

}  // namespace trireme::plan
