#include <nlohmann/json.hpp>

#include "plan/run_files.h"

namespace trireme::plan {

TRIREME_DEFINE_JSON(PricedPattern, pattern, layer_s)
TRIREME_DEFINE_JSON_WITH_DEFAULT(Prediction, step_s, tokens_per_s, model_flops_per_step, peak_flops_per_s, platform,
                                 platform_measured, baseline_bytes, ranks, memory, constant, checkpoint_copy_bytes,
                                 patterns)
TRIREME_DEFINE_JSON_WITH_DEFAULT(MeasuredRank, rank, first_step, num_steps, step_s, step_offset_s, peak_memory_bytes,
                                 checkpoint_peak_bytes, checkpoint_copy_bytes, spans, phases, phase_s, action_s,
                                 expert_rows)

}  // namespace trireme::plan
