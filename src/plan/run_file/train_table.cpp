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
  s.weight_decay = t.number_or("weight_decay", s.weight_decay, 0);
  s.gradient_clip = t.number_or("gradient_clip", s.gradient_clip, 0);
  return s;
}

LearningRateSpec read_learning_rate(ConfigTable t) {
  LearningRateSpec s;
  s.kind = t.one_of_or("kind", s.kind, {"cosine", "wsd", "constant"});
  s.warmup_steps = t.integer_or("warmup_steps", s.warmup_steps, 0);
  s.decay_steps = t.integer_or("decay_steps", s.decay_steps, 0);
  s.min_ratio = t.number_or("min_ratio", s.min_ratio, 0, 1);
  return s;
}

}  // namespace

TrainSpec read_train(ConfigTable t) {
  TrainSpec s;
  s.steps = t.integer_or("steps", s.steps, 1);
  s.seed = static_cast<std::uint64_t>(t.integer_or("seed", static_cast<std::int64_t>(s.seed), 0));
  s.optimizer = read_optimizer(t.table("optimizer"));
  s.schedule = read_learning_rate(t.table("schedule"));
  s.eval_every = t.integer_or("eval_every", s.eval_every, 0);
  s.eval_sequences = t.integer_or("eval_sequences", s.eval_sequences, 0);
  s.log_every = t.integer_or("log_every", s.log_every, 1);
  return s;
}

std::string to_toml(const TrainSpec& s) {
  const OptimizerSpec& o = s.optimizer;
  const LearningRateSpec& rate = s.schedule;
  return TomlText("train")
             .line("steps", s.steps)
             .line("seed", s.seed)
             .line("eval_every", s.eval_every)
             .line("eval_sequences", s.eval_sequences)
             .line("log_every", s.log_every)
             .text() +
         TomlText("train.optimizer")
             .line("learning_rate", o.learning_rate)
             .line("beta1", o.beta1)
             .line("beta2", o.beta2)
             .line("eps", o.eps)
             .line("weight_decay", o.weight_decay)
             .line("gradient_clip", o.gradient_clip)
             .text() +
         TomlText("train.schedule")
             .line("kind", rate.kind)
             .line("warmup_steps", rate.warmup_steps)
             .line("decay_steps", rate.decay_steps)
             .line("min_ratio", rate.min_ratio)
             .text();
}

}  // namespace trireme::plan
