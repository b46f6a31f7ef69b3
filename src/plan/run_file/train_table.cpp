#include "plan/run_file/tables.h"

namespace trireme::plan {

namespace {

OptimizerSpec read_optimizer(ConfigTable t) {
  OptimizerSpec s;
  s.learning_rate = t.number_or("learning_rate", s.learning_rate, 0);
  s.beta1 = t.number_or("beta1", s.beta1, 0, 1);
  s.beta2 = t.number_or("beta2", s.beta2, 0, 1);
  if (s.beta1 == 1) t.fail("beta1", "must be below 1");
  if (s.beta2 == 1) t.fail("beta2", "must be below 1");
  s.eps = t.number_or("eps", s.eps, 0);
  if (s.eps == 0) t.fail("eps", "must be above 0: a gradient of 0 would be divided by 0");
  s.weight_decay = t.number_or("weight_decay", s.weight_decay, 0);
  s.gradient_clip = t.number_or("gradient_clip", s.gradient_clip, 0);
  s.decay_norms_and_biases = t.boolean_or("decay_norms_and_biases", s.decay_norms_and_biases);
  return s;
}

LearningRateSpec read_learning_rate(ConfigTable t) {
  LearningRateSpec s;
  s.kind = t.one_of_or("kind", s.kind, {"cosine", "linear", "wsd", "constant"});
  s.warmup_steps = t.integer_or("warmup_steps", s.warmup_steps, 0);
  s.decay_steps = t.integer_or("decay_steps", s.decay_steps, 0);
  s.min_ratio = t.number_or("min_ratio", s.min_ratio, 0, 1);
  return s;
}

LossSpikeSpec read_loss_spike(ConfigTable t) {
  LossSpikeSpec s;
  s.action = t.one_of_or("action", s.action, {"off", "stop", "skip", "rewind"});
  s.factor = t.number_or("factor", s.factor, 1);
  s.window = t.integer_or("window", s.window, 2, 1 << 20);
  s.max_rewinds = t.integer_or("max_rewinds", s.max_rewinds, 0, 1 << 20);
  return s;
}

// A number, or the word "all".
std::int64_t read_eval_sequences(ConfigTable& t) {
  if (!t.is_string("eval_sequences")) return t.integer_or("eval_sequences", 0, 0);
  if (t.string("eval_sequences") != "all") t.fail("eval_sequences", "must be a number of sequences or \"all\"");
  return all_sequences;
}

}  // namespace

TrainSpec read_train(ConfigTable t) {
  TrainSpec s;
  s.steps = t.integer_or("steps", s.steps, 1);
  s.seed = static_cast<std::uint64_t>(t.integer_or("seed", static_cast<std::int64_t>(s.seed), 0));
  s.optimizer = read_optimizer(t.table("optimizer"));
  s.schedule = read_learning_rate(t.table("schedule"));
  s.eval_every = t.integer_or("eval_every", s.eval_every, 0);
  s.eval_sequences = read_eval_sequences(t);
  s.log_every = t.integer_or("log_every", s.log_every, 1);
  s.max_skipped_updates = t.integer_or("max_skipped_updates", s.max_skipped_updates, 0);
  s.loss_spike = read_loss_spike(t.table("loss_spike"));
  s.expert_collapse_steps = t.integer_or("expert_collapse_steps", s.expert_collapse_steps, 0);
  s.freeze = t.strings_or("freeze", {});
  return s;
}

std::string to_toml(const TrainSpec& s) {
  const OptimizerSpec& o = s.optimizer;
  const LearningRateSpec& rate = s.schedule;
  const LossSpikeSpec& spike = s.loss_spike;
  return TomlText("train")
             .line("steps", s.steps)
             .line("seed", s.seed)
             .line("eval_every", s.eval_every)
             .raw("eval_sequences", s.eval_sequences == all_sequences ? "\"all\"" : fmt::format("{}", s.eval_sequences))
             .line("log_every", s.log_every)
             .line("max_skipped_updates", s.max_skipped_updates)
             .line("expert_collapse_steps", s.expert_collapse_steps)
             .line("freeze", s.freeze)
             .text() +
         TomlText("train.optimizer")
             .line("learning_rate", o.learning_rate)
             .line("beta1", o.beta1)
             .line("beta2", o.beta2)
             .line("eps", o.eps)
             .line("weight_decay", o.weight_decay)
             .line("gradient_clip", o.gradient_clip)
             .line("decay_norms_and_biases", o.decay_norms_and_biases)
             .text() +
         TomlText("train.loss_spike")
             .line("action", spike.action)
             .line("factor", spike.factor)
             .line("window", spike.window)
             .line("max_rewinds", spike.max_rewinds)
             .text() +
         TomlText("train.schedule")
             .line("kind", rate.kind)
             .line("warmup_steps", rate.warmup_steps)
             .line("decay_steps", rate.decay_steps)
             .line("min_ratio", rate.min_ratio)
             .text();
}

}  // namespace trireme::plan
