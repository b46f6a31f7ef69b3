// The schedule that a layout says: its generator's by name, or its file's.
#pragma once
#include "plan/layout_spec.h"
#include "plan/pipeline/schedule.h"

namespace trireme::plan {

// For so many stages and micro-batches, which a file's must have. ConfigError as make_schedule.
Schedule layout_schedule(const LayoutSpec& layout, int num_stages, int num_micro_batches);
// Forwards only, of the same pieces on the same stages.
Schedule evaluation_schedule(const LayoutSpec& layout, int num_stages, int num_micro_batches);
// Chunks of a stage.
int num_chunks(const LayoutSpec& layout);

}  // namespace trireme::plan
