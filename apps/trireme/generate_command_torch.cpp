#include <ATen/Parallel.h>

#include "base/config_table.h"
#include "nn/key_value_cache.h"
#include "nn/single_device.h"
#include "trireme/commands.h"
#include "trireme/generate_texts.h"
#include "trireme/launch.h"
#include "trireme/memory_failure.h"
#include "trireme/option_rules.h"
#include "trireme/positive_number.h"

namespace trireme::apps {

namespace {

// With one line, before anything is read.
void check_given(const CLI::App& command, const GenerateCall& call) {
  if (call.pp * call.ep == 1) refuse_given(command, {"--timeout"}, "has a meaning only with several ranks: --pp or --ep");
  if (call.generate.sampling.temperature == 0)
    refuse_given(command, {"--top-k", "--top-p"}, "has no meaning with --temperature 0, which always takes the likeliest token");
}

void run(const CLI::App& command, const GenerateCall& call, Context& context) {
  check_given(command, call);
  if (call.pp * call.ep > 1) {
    context.exit_code = generate_on_ranks(call, context);
    return;
  }
  wait_asleep(context);
  if (call.threads > 0) at::set_num_threads(call.threads);
  const OpenModel model = open_model(call);
  const TextPlan texts = plan_texts(call, model);
  const auto whole = read_part(model, nn::whole_model(model.spec()), 0);
  check_cache(*whole, texts);
  nn::KeyValueCache cache =
      nn::make_cache(model.spec(), whole->hosted().layers, model.options, texts.options.slots, texts.capacity);
  write_texts(call, model, texts, train::decoder_of(*whole, cache), cache.bytes());
}

}  // namespace

void add_generate_command(CLI::App& app, Context& context) {
  auto call = std::make_shared<GenerateCall>();
  GenerateCall& o = *call;
  o.checkpoint.key = "SOURCE";
  CLI::App* c = app.add_subcommand("generate", "Continue prompts with a trained model");
  c->add_option("source", o.source,
                "A run's folder or RUN.toml, a checkpoint, a folder of them, or a Hugging Face folder")
      ->required();
  c->add_option("--prompt", o.prompts.texts, "Text to continue; repeatable; may be empty")->allow_extra_args(false);
  CLI::Option* prompt_file = c->add_option("--prompt-file", o.prompts.file, "A file of prompts, one a line");
  c->add_option("--separator", o.prompts.separator,
                "The line that stands between the prompts of the file, which may then have lines")
      ->needs(prompt_file);
  c->add_option("--prompt-ids", o.prompts.ids, "A prompt as token ids (5,17,3); repeatable")->allow_extra_args(false);
  c->add_option("--max-tokens", o.generate.max_tokens, "Tokens of a continuation at most")
      ->capture_default_str()
      ->check(whole_number(0, 1 << 24));
  c->add_option("--temperature", o.generate.sampling.temperature, "0: always the likeliest token; above 1: more varied")
      ->capture_default_str()
      ->check(number_between(0, largest_number));
  c->add_option("--top-k", o.generate.sampling.top_k, "Choose among so many of the likeliest tokens; 0: all")
      ->capture_default_str()
      ->check(whole_number(0, INT32_MAX));
  c->add_option("--top-p", o.generate.sampling.top_p,
                "Choose among the likeliest tokens that have this probability together")
      ->capture_default_str()
      ->check(number_between(0, 1));
  c->add_option("--seed", o.generate.seed, "The same seed gives the same texts")
      ->capture_default_str()
      ->check(whole_number(0, UINT64_MAX));
  c->add_option("--samples", o.samples, "Continuations of each prompt")
      ->capture_default_str()
      ->check(whole_number(1, 1 << 20));
  c->add_option("--stop", o.stops, "End a continuation before this text; repeatable")->allow_extra_args(false);
  CLI::Option* step =
      c->add_option("--step", o.checkpoint.step, "The run's checkpoint of this step (default: the newest)")
          ->check(whole_number(0, largest_step));
  c->add_flag("--best", o.checkpoint.best, "The run's checkpoint with the lowest evaluation loss")->excludes(step);
  c->add_option("--data", o.data, "Prefix of the data set whose tokenizer counts (default: the run's)");
  c->add_option("--tokenizer", o.tokenizer, "byte, or a tokenizer's file (default: the data set's, or the folder's)");
  c->add_option("--batch", o.generate.slots, "Sequences that are continued at the same time")
      ->capture_default_str()
      ->check(whole_number(1, 1 << 20));
  c->add_option("--dtype", o.dtype, "To compute in: float32, float64, bfloat16, float16")
      ->capture_default_str()
      ->check(CLI::IsMember({"float32", "float64", "bfloat16", "float16"}));
  c->add_option("--threads", o.threads, "Threads (default: the cores)")->check(whole_number(1, most_threads));
  c->add_option("--pp", o.pp, "Ranks: parts that the layers are cut into")
      ->capture_default_str()
      ->check(whole_number(1, 10000));
  c->add_option("--ep", o.ep, "Ranks of each part, among which its experts lie")
      ->capture_default_str()
      ->check(whole_number(1, 10000));
  c->add_option("--timeout", o.timeout_s, "Seconds that ranks wait for one another")
      ->capture_default_str()
      ->check(number_between(0.1, 1e6));
  c->add_flag("--json", o.json, "Print one JSON object a continuation");
  c->callback([c, call, &context] {
    tell_out_of_memory("generate", [&] { run(*c, *call, context); });
  });
}

}  // namespace trireme::apps
