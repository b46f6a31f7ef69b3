// The routed part of a mixture-of-experts layer as a value.
#pragma once

namespace trireme::model {

// Of the router's logits, in max(float32, dtype). Softmax with `renormalise` equals the softmax over the selected
// logits (Mixtral, GPT-OSS).
enum class ScoreFunction { softmax, sigmoid, sqrt_softplus };
enum class AuxLossLevel { micro_batch, sequence };

struct RouterSpec {
  int top_k = 0;
  ScoreFunction score = ScoreFunction::softmax;  // in max(float32, dtype)
  bool renormalise = true;                       // selected scores divided by their sum
  double scale = 1.0;                            // multiplies the (renormalised) scores
  int num_groups = 1;                            // group-limited selection (DeepSeek-V3): experts in num_groups groups,
  int top_groups = 1;                 // only the best top_groups (by the sum of their two best scores) compete
  bool selection_bias = false;        // auxiliary-loss-free balancing: a bias that only selection sees
  double selection_bias_rate = 1e-3;  // its step: bias += rate * sign(mean count - count), once a step
  double aux_loss_coefficient = 0.0;  // load balance: E / (k T) * sum_e count_e * (1/T) sum_t prob_te
  AuxLossLevel aux_loss_level = AuxLossLevel::sequence;
  double z_loss_coefficient = 0.0;  // mean over tokens of logsumexp(logits)^2
  bool bias = false;                // of the logits (GPT-OSS); a trained parameter, unlike selection_bias
  bool scores_input = false;        // the score multiplies an expert's input, not its output (Llama 4)
  bool group_by_maximum = false;    // a group is scored by its best expert (DeepSeek-V2), not its two best
  bool operator==(const RouterSpec&) const = default;
};

struct MoeSpec {
  int num_experts = 0;  // 0: a dense model
  int expert_ffn = 0;   // width of one expert
  int shared_ffn = 0;   // width of the shared expert (several shared experts are one of their summed width); 0: none
  RouterSpec router;
  int every = 1;  // behind the first dense layers, layer % every == offset is an MoE layer, the others are dense
  int offset = 0;
  bool shared_gate = false;  // a sigmoid gate of one logit a token on the shared expert's output (Qwen2-MoE)
  bool expert_bias = false;  // of every matrix of an expert (GPT-OSS)
  int latent_dim = 0;        // routed experts work at this width, between two projections that they share; 0: at hidden
  bool operator==(const MoeSpec&) const = default;
};

}  // namespace trireme::model
