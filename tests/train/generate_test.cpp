#include "train/generate/generator.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "nn/single_device.h"
#include "train/checkpoint_fixture.h"

namespace trireme::train {
namespace {

using testing::ElementsAre;

// A model of 10 tokens whose likeliest token follows the last one by `step`; what went through it is written down.
struct Counting {
  std::int64_t step = 1;
  std::vector<std::vector<nn::SlotTokens>> calls;
  std::vector<std::int64_t> cleared;

  Decoder decoder() {
    return {.next =
                [this](const std::vector<nn::SlotTokens>& sequences) {
                  calls.push_back(sequences);
                  const at::Tensor logits = at::zeros({static_cast<std::int64_t>(sequences.size()), 10});
                  for (std::size_t i = 0; i < sequences.size(); ++i)
                    logits[static_cast<std::int64_t>(i)][(sequences[i].tokens.back() + step) % 10] = 20.0;
                  return logits;
                },
            .clear = [this](std::int64_t slot) { cleared.push_back(slot); }};
  }
};

struct Outcome {
  std::vector<Generated> texts;
  std::vector<std::size_t> order;  // of ends
  GenerateWork work;
};

Outcome run(
    const Decoder& decoder, const GenerateOptions& options, const std::vector<Request>& requests,
    const OnToken& on_token = [](std::size_t, std::int32_t) { return true; }) {
  Outcome out{.texts = std::vector<Generated>(requests.size())};
  out.work = generate(decoder, options, requests, on_token, [&](std::size_t request, const Generated& generated) {
    out.texts[request] = generated;
    out.order.push_back(request);
  });
  return out;
}

TEST(Generate, EndsByEosByLengthAndByWhoeverTakesTheTokens) {
  Counting counting;
  const GenerateOptions options{.sampling = {.temperature = 0}, .max_tokens = 4, .ends = {9}};
  const Outcome out = run(counting.decoder(), options, {{.prompt = {3, 6}}, {.prompt = {1}}, {.prompt = {2}}},
                          [](std::size_t request, std::int32_t token) { return request != 2 || token != 4; });
  EXPECT_THAT(out.texts[0].tokens, ElementsAre(7, 8));
  EXPECT_EQ(out.texts[0].finish, Finish::eos);
  EXPECT_THAT(out.texts[1].tokens, ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(out.texts[1].finish, Finish::length);
  EXPECT_THAT(out.texts[2].tokens, ElementsAre(3, 4));
  EXPECT_EQ(out.texts[2].finish, Finish::stop);
}

// Every token goes through the model once: the prompts' 2 + 1 tokens, and each generated one but the last.
TEST(Generate, EachTokenGoesThroughTheModelOnce) {
  Counting counting;
  const Outcome out = run(counting.decoder(), {.sampling = {.temperature = 0}, .max_tokens = 50},
                          {{.prompt = {3, 6}}, {.prompt = {1}}});
  EXPECT_EQ(out.work.rows, 2 + 1 + 2 * 49);
  EXPECT_EQ(out.work.forwards, 50);
  std::int64_t rows = 0;
  for (const auto& call : counting.calls)
    for (const nn::SlotTokens& s : call) rows += static_cast<std::int64_t>(s.tokens.size());
  EXPECT_EQ(rows, out.work.rows);
}

// Two slots, three texts: the third gets the slot of the first that ends, at once and cleared.
TEST(Generate, AFreeSlotGoesToTheNextText) {
  Counting counting;
  const Outcome out =
      run(counting.decoder(), {.sampling = {.temperature = 0}, .max_tokens = 6, .slots = 2, .ends = {9}},
          {{.prompt = {0}}, {.prompt = {6}}, {.prompt = {4}}});
  EXPECT_THAT(out.order, ElementsAre(1, 0, 2));
  EXPECT_THAT(counting.cleared, ElementsAre(0, 1, 1));
  EXPECT_THAT(out.texts[1].tokens, ElementsAre(7, 8));
  EXPECT_THAT(out.texts[2].tokens, ElementsAre(5, 6, 7, 8));
  ASSERT_EQ(counting.calls.size(), 8u);  // 3 for the second text (its last gives eos), then 5 for the third
  EXPECT_EQ(counting.calls[3][1].tokens, std::vector<std::int64_t>{4});
}

// A prompt of 10 tokens, 4 at a time beside a text that goes on.
TEST(Generate, LongPromptsAreReadInPieces) {
  Counting counting;
  const std::vector<std::int32_t> prompt = {0, 1, 2, 3, 4, 5, 6, 7, 8, 5};
  const Outcome out =
      run(counting.decoder(), {.sampling = {.temperature = 0}, .max_tokens = 3, .slots = 2, .max_step_tokens = 4},
          {{.prompt = {1}}, {.prompt = prompt}});
  std::vector<std::int64_t> read;
  for (const auto& call : counting.calls) {
    std::size_t tokens = 0;
    for (const nn::SlotTokens& s : call) {
      tokens += s.tokens.size();
      if (s.slot == 1) read.insert(read.end(), s.tokens.begin(), s.tokens.end());
    }
    EXPECT_LE(tokens, 4u);
  }
  read.resize(prompt.size());
  EXPECT_EQ(read, std::vector<std::int64_t>(prompt.begin(), prompt.end()));
  EXPECT_THAT(out.texts[1].tokens, ElementsAre(6, 7, 8));
}

// A prompt of 10 tokens, 4 at a time: behind the first forward 4 are read, then 8; behind the third there is nothing left to
// tell.
TEST(Generate, TellsHowMuchOfALongPromptIsRead) {
  Counting counting;
  std::vector<std::int64_t> read;
  generate(counting.decoder(), {.sampling = {.temperature = 0}, .max_tokens = 1, .slots = 1, .max_step_tokens = 4},
           {{.prompt = {0, 1, 2, 3, 4, 5, 6, 7, 8, 5}}}, [](std::size_t, std::int32_t) { return true; },
           [](std::size_t, const Generated&) {},
           [&](const PromptProgress& p) {
             EXPECT_EQ(p.all, 10);
             read.push_back(p.read);
           });
  EXPECT_THAT(read, ElementsAre(4, 8));
}

TEST(Generate, TokensBeyondTheTokenizerAreNeverChosen) {
  Counting counting;
  const Outcome out =
      run(counting.decoder(), {.sampling = {.temperature = 0}, .max_tokens = 3, .num_tokens = 5}, {{.prompt = {3}}});
  // After 4 comes 5, which is none of five tokens: all others are equal, and the lowest wins.
  EXPECT_THAT(out.texts[0].tokens, ElementsAre(4, 0, 1));
}

TEST(Generate, NumbersThatAreNoneAreAFailure) {
  const Decoder broken{.next =
                           [](const auto& s) {
                             return at::full({static_cast<std::int64_t>(s.size()), 10}, NAN);
                           },
                       .clear = [](std::int64_t) {}};
  try {
    run(broken, {}, {{.prompt = {1}, .prompt_number = 4}});
    FAIL() << "no error";
  } catch (const RuntimeFailure& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("prompt 4, token 0"));
    EXPECT_THAT(error.what(), testing::HasSubstr("not finite"));
  }
}

// A text is a function of the seed, its prompt's number and its sample's: not of what is made beside it.
TEST(Generate, ATextDependsOnNothingBesideIt) {
  const Decoder flat{.next =
                         [](const auto& s) {
                           return at::zeros({static_cast<std::int64_t>(s.size()), 10});
                         },
                     .clear = [](std::int64_t) {}};
  std::vector<Request> requests;
  for (std::int64_t prompt = 0; prompt < 3; ++prompt)
    for (std::int64_t sample = 0; sample < 2; ++sample)
      requests.push_back({.prompt = {1}, .prompt_number = prompt, .sample_number = sample});
  const GenerateOptions options{.seed = 5, .max_tokens = 30, .slots = 4};
  const Outcome together = run(flat, options, requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(run(flat, {.seed = 5, .max_tokens = 30, .slots = 1}, {requests[i]}).texts[0].tokens,
              together.texts[i].tokens)
        << i;
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(together.texts[i].tokens, together.texts[j].tokens) << i << " " << j;
  }
  EXPECT_NE(run(flat, {.seed = 6, .max_tokens = 30}, {requests[0]}).texts[0].tokens, together.texts[0].tokens);
}

// A real model: several prompts at a time give what each gives alone by whole forwards without a cache.
TEST(Generate, BatchedGreedyTextsAreThoseOfWholeForwards) {
  const model::ModelSpec spec = small_model();
  nn::Model model(spec, nn::whole_model(spec), {});
  model.initialise(3);
  nn::KeyValueCache cache = nn::make_cache(spec, model.hosted().layers, model.options(), 2, 40);
  const std::vector<Request> requests = {{.prompt = {1, 2, 3}}, {.prompt = {7}}, {.prompt = {5, 5, 28, 0, 4, 9, 11}}};
  const Outcome out =
      run(decoder_of(model, cache), {.sampling = {.temperature = 0}, .max_tokens = 25, .slots = 2}, requests);
  at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    std::vector<std::int64_t> tokens(requests[i].prompt.begin(), requests[i].prompt.end());
    for (int t = 0; t < 25; ++t) {
      const auto length = static_cast<std::int64_t>(tokens.size());
      const nn::Batch batch{.tokens_BS = at::tensor(tokens, at::kLong).view({1, length}),
                            .positions_BS = at::arange(length, at::kLong).view({1, length})};
      tokens.push_back(nn::logits(model, batch)[-1].argmax().item<std::int64_t>());
    }
    EXPECT_EQ(std::vector<std::int64_t>(out.texts[i].tokens.begin(), out.texts[i].tokens.end()),
              std::vector<std::int64_t>(tokens.begin() + static_cast<std::ptrdiff_t>(requests[i].prompt.size()),
                                        tokens.end()));
  }
}

}  // namespace
}  // namespace trireme::train
