#include "train/generate/generator.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <ATen/ATen.h>

#include "base/errors.h"
#include "nn/extend.h"

namespace trireme::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Active {
  std::size_t request = 0;
  std::int64_t slot = 0;
  std::size_t prompt_read = 0;
  Generated result;
  Clock::time_point begun;
};

}  // namespace

const char* name_of(Finish finish) {
  switch (finish) {
    case Finish::eos:
      return "eos";
    case Finish::length:
      return "length";
    case Finish::stop:
      return "stop";
  }
  return "";
}

Decoder decoder_of(nn::Model& model, nn::KeyValueCache& cache) {
  return {.next =
              [&](const std::vector<nn::SlotTokens>& sequences) {
                return nn::next_logits(model, nn::follow(cache, sequences), cache);
              },
          .clear = [&](std::int64_t slot) { cache.clear(slot); }};
}

GenerateWork generate(const Decoder& decoder, const GenerateOptions& options, const std::vector<Request>& requests,
                      const OnToken& on_token, const OnEnd& on_end, const OnPrompts& on_prompts) {
  check(options.sampling);
  const auto begin = Clock::now();
  GenerateWork work;
  std::vector<Active> active;
  std::vector<std::int64_t> free_slots;
  for (std::int64_t slot = options.slots; slot-- > 0;) free_slots.push_back(slot);
  std::size_t next_request = 0;

  const auto end = [&](Active& a, Finish finish) {
    a.result.finish = finish;
    a.result.seconds = seconds_since(a.begun);
    free_slots.push_back(a.slot);
    on_end(a.request, a.result);
    a.slot = -1;
  };

  while (next_request < requests.size() || !active.empty()) {
    while (next_request < requests.size() && !free_slots.empty()) {
      TRIREME_CHECK(!requests[next_request].prompt.empty(), "prompt {} is empty", next_request);
      active.push_back({.request = next_request++, .slot = free_slots.back(), .begun = Clock::now()});
      free_slots.pop_back();
      decoder.clear(active.back().slot);
    }
    // One token of each sequence that is being continued, and as much of prompts as there is room for.
    std::int64_t room = options.max_step_tokens;
    std::vector<nn::SlotTokens> sequences;
    std::vector<Active*> of_run;
    for (Active& a : active) {
      const std::vector<std::int32_t>& prompt = requests[a.request].prompt;
      nn::SlotTokens tokens{.slot = a.slot};
      if (a.prompt_read == prompt.size()) {
        tokens.tokens = {a.result.tokens.back()};
      } else if (room > 0) {
        const std::size_t count = std::min(static_cast<std::size_t>(room), prompt.size() - a.prompt_read);
        const auto first = prompt.begin() + static_cast<std::ptrdiff_t>(a.prompt_read);
        tokens.tokens.assign(first, first + static_cast<std::ptrdiff_t>(count));
        a.prompt_read += count;
      } else {
        continue;
      }
      room -= static_cast<std::int64_t>(tokens.tokens.size());
      work.rows += static_cast<std::int64_t>(tokens.tokens.size());
      sequences.push_back(std::move(tokens));
      of_run.push_back(&a);
    }
    const at::Tensor logits = decoder.next(sequences).to(at::kCPU, at::kFloat).contiguous();
    ++work.forwards;
    if (on_prompts) {
      PromptProgress progress{.seconds = seconds_since(begin)};
      for (const Active& a : active) {
        progress.read += static_cast<std::int64_t>(a.prompt_read);
        progress.all += static_cast<std::int64_t>(requests[a.request].prompt.size());
      }
      if (progress.read < progress.all) on_prompts(progress);
    }
    const std::int64_t vocab = logits.size(1);
    const std::int64_t allowed = options.num_tokens > 0 ? std::min(options.num_tokens, vocab) : vocab;
    for (std::size_t run = 0; run < of_run.size(); ++run) {
      Active& a = *of_run[run];
      const Request& request = requests[a.request];
      if (a.prompt_read < request.prompt.size()) continue;
      if (options.max_tokens == 0) {
        end(a, Finish::length);
        continue;
      }
      const std::span<const float> row(logits.const_data_ptr<float>() + static_cast<std::int64_t>(run) * vocab,
                                       static_cast<std::size_t>(allowed));
      const auto position = static_cast<std::int64_t>(a.result.tokens.size());
      for (const float value : row)
        if (!std::isfinite(value))
          throw RuntimeFailure({.rank = 0,
                                .operation = "generate",
                                .group = fmt::format("prompt {}, token {}", request.prompt_number, position),
                                .reason = "the model's logits are not finite numbers: look at the weights"});
      const std::int32_t token =
          choose(row, options.sampling,
                 options.sampling.temperature == 0
                     ? 0.0
                     : uniform_for(options.seed, request.prompt_number, request.sample_number, position));
      if (std::find(options.ends.begin(), options.ends.end(), token) != options.ends.end()) {
        end(a, Finish::eos);
        continue;
      }
      a.result.tokens.push_back(token);
      if (!on_token(a.request, token))
        end(a, Finish::stop);
      else if (static_cast<std::int64_t>(a.result.tokens.size()) >= options.max_tokens)
        end(a, Finish::length);
    }
    std::erase_if(active, [](const Active& a) { return a.slot < 0; });
  }
  work.seconds = seconds_since(begin);
  return work;
}

}  // namespace trireme::train
