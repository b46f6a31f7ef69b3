#include "trireme/generate_texts.h"

#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

#include "base/errors.h"
#include "nn/key_value_cache.h"
#include "parallel/stage_context.h"
#include "trireme/generate_output.h"

namespace trireme::apps {

namespace {

void say(const std::string& text) {
  fmt::print(stderr, "{}\n", text);
  std::fflush(stderr);
}

void warn_of_lengths(const std::vector<Prompt>& prompts, std::int64_t max_tokens, std::int64_t trained_length) {
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto length = static_cast<std::int64_t>(prompts[i].tokens.size());
    if (trained_length > 0 && length + max_tokens > trained_length)
      say(fmt::format(
          "warning: prompt {} has {} tokens and may get {} more, but the model was trained on sequences of {}: "
          "what comes behind them is likely to be worse",
          i + 1, length, max_tokens, trained_length));
  }
}

void say_what_nothing_becomes(const TextPlan& texts, const train::TrainedModel& trained) {
  for (const Prompt& prompt : texts.prompts) {
    if (!prompt.text.empty() || !texts.tokens.tokenizer || prompt.tokens != texts.tokens.nothing) continue;
    if (!texts.tokens.begin.empty()) {
      say(fmt::format("an empty prompt begins with token {}, with which every text begins", prompt.tokens.front()));
    } else {
      say(fmt::format(
          "an empty prompt begins with token {}, behind which a new text begins{}", prompt.tokens.front(),
          trained.cut_at_documents
              ? "; the run was trained with data.reset_at_documents, so the model has not learned how one begins"
              : ""));
    }
    return;
  }
}

}  // namespace

OpenModel open_model(const GenerateCall& call) {
  OpenModel out;
  out.options.dtype = parallel::to_scalar_type(dtype_from_name(call.dtype));
  out.trained = train::find_trained_model(call.source, call.checkpoint);
  out.weights = train::open_weights(out.trained.weights);
  return out;
}

std::unique_ptr<nn::Model> read_part(const OpenModel& model, const nn::Hosted& hosted, int rank) {
  if (rank == 0) say(fmt::format("reading {}", model.trained.weights.string()));
  return train::load_model(*model.weights, hosted, model.options);
}

TextPlan plan_texts(const GenerateCall& call, const OpenModel& model) {
  check(call.generate.sampling);
  for (const std::string& stop : call.stops)
    if (stop.empty()) throw ConfigError({.key = "--stop", .allowed = "a text that is not empty"});
  TextPlan out;
  const bool ids_alone = !call.prompts.ids.empty() && call.prompts.texts.empty() && call.prompts.file.empty();
  if (!ids_alone || !call.tokenizer.empty() || !call.data.empty())
    out.tokens = train::find_tokenizer(model.trained, model.spec(), call.tokenizer, call.data);
  out.prompts = read_prompts(call.prompts, out.tokens, model.spec().vocab_size);
  out.options = call.generate;
  out.options.ends = model.trained.end_tokens;
  if (out.tokens.tokenizer) {
    if (const std::int32_t eos = out.tokens.tokenizer->special().eos; eos >= 0) out.options.ends.push_back(eos);
    out.options.num_tokens = out.tokens.tokenizer->vocab_size();
  }
  for (std::size_t p = 0; p < out.prompts.size(); ++p) {
    const std::vector<std::int32_t>& tokens = out.prompts[p].tokens;
    for (std::int64_t s = 0; s < call.samples; ++s)
      out.requests.push_back({.prompt = tokens, .prompt_number = static_cast<std::int64_t>(p), .sample_number = s});
    out.capacity = std::max(out.capacity, static_cast<std::int64_t>(tokens.size()) + out.options.max_tokens);
  }
  out.options.slots = std::min(out.options.slots, static_cast<std::int64_t>(out.requests.size()));
  return out;
}

void check_cache(const nn::Model& part, const TextPlan& texts) {
  const std::int64_t slots = texts.options.slots;
  const double bytes =
      static_cast<double>(nn::make_cache(part.spec(), part.hosted().layers, part.options(), 1, 1).bytes()) *
      static_cast<double>(slots) * static_cast<double>(texts.capacity);
  const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (bytes > memory)
    throw ConfigError(
        {.key = "--max-tokens",
         .value = fmt::format("{}", texts.options.max_tokens),
         .allowed = fmt::format("keys and values of {} sequences of {} tokens take {:.1f} GiB, and this machine "
                                "has {:.1f} GiB: fewer tokens, or a smaller --batch",
                                slots, texts.capacity, bytes / (1 << 30), memory / (1 << 30))});
}

void write_texts(const GenerateCall& call, const OpenModel& model, const TextPlan& texts, const train::Decoder& decoder,
                 std::int64_t cache_bytes) {
  const train::Tokenizer* tokenizer = texts.tokens.tokenizer.get();
  say(fmt::format("{} of {:.1f} M parameters in {}{}; keys and values of {} x {} tokens: {:.1f} MiB; {}",
                  model.spec().name, static_cast<double>(model::count_parameters(model.spec()).total) / 1e6, call.dtype,
                  model.trained.step ? fmt::format(", step {}", *model.trained.step) : "", texts.options.slots,
                  texts.capacity, static_cast<double>(cache_bytes) / (1 << 20),
                  tokenizer != nullptr ? fmt::format("tokenizer: {} ({})", tokenizer->name(), texts.tokens.from)
                                       : "no tokenizer: tokens are shown as numbers"));
  say_what_nothing_becomes(texts, model.trained);
  warn_of_lengths(texts.prompts, texts.options.max_tokens, model.trained.trained_length);
  GenerateOutput output(
      {.json = call.json, .terminal = isatty(STDOUT_FILENO) != 0, .seed = texts.options.seed, .stops = call.stops},
      tokenizer, texts.prompts, texts.requests);
  std::int64_t num_tokens = 0;
  const train::GenerateWork work = train::generate(
      decoder, texts.options, texts.requests,
      [&](std::size_t request, std::int32_t token) { return output.token(request, token); },
      [&](std::size_t request, const train::Generated& generated) {
        num_tokens += static_cast<std::int64_t>(generated.tokens.size());
        output.end(request, generated);
      },
      [&, said_s = 0.0](const train::PromptProgress& p) mutable {
        if (p.seconds < said_s + 2) return;
        said_s = p.seconds;
        say(fmt::format("reading prompts: {} of {} tokens, {:.0f} s", p.read, p.all, p.seconds));
      });
  say(fmt::format("{} tokens in {:.2f} s ({:.1f} tokens/s, {} sequences at a time)", num_tokens, work.seconds,
                  work.seconds > 0 ? static_cast<double>(num_tokens) / work.seconds : 0.0, texts.options.slots));
}

}  // namespace trireme::apps
