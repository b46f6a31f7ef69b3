#include "train/metrics/step_metrics.h"

namespace trireme::train {

void to_json(nlohmann::json& j, const StepMetrics& m) {
  j = {{"step", m.step},
       {"loss", m.loss},
       {"grad_norm", m.grad_norm},
       {"learning_rate", m.learning_rate},
       {"tokens_per_s", m.tokens_per_s},
       {"model_tflops", m.model_tflops},
       {"predicted_step_s", m.predicted_step_s},
       {"measured_step_s", m.measured_step_s},
       {"peak_memory_bytes", m.peak_memory_bytes},
       {"aux_loss", m.aux_loss},
       {"z_loss", m.z_loss},
       {"expert_load_max_over_mean", m.expert_load_max_over_mean},
       {"tokens_seen", m.tokens_seen}};
  if (m.eval_loss) j["eval_loss"] = *m.eval_loss;
  if (m.bigram_loss) j["bigram_loss"] = *m.bigram_loss;
}

}  // namespace trireme::train
