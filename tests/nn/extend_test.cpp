// A model that goes on from cached keys and values, held against the forward of whole sequences (nn::logits), which
// golden_test.cpp holds against transformers.
#include <gtest/gtest.h>

#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>

#include <map>
#include <random>

#include "helpers.h"
#include "nn/counting_allocator.h"
#include "nn/extend.h"

namespace trireme::nn {
namespace {

// Everything that nn trains: grouped heads, QK norm, biases, a dense layer, shared experts, sigmoid scores with groups
// and a selection bias, losses that the router is trained by.
model::ModelSpec rich_spec() {
  model::ModelSpec s = tiny_spec();
  s.num_layers = 3;
  s.attention = {.num_heads = 6, .num_kv_heads = 2, .head_dim = 10, .qk_norm = true, .bias = true, .output_bias = true};
  s.attention.rope_theta = 500;
  s.moe.num_experts = 6;
  s.moe.shared_ffn = 21;
  s.moe.router = {.top_k = 2, .score = model::ScoreFunction::sigmoid};
  s.moe.router.num_groups = 3;
  s.moe.router.top_groups = 2;
  s.moe.router.selection_bias = true;
  s.moe.router.aux_loss_coefficient = 0.01;
  s.moe.router.z_loss_coefficient = 0.001;
  s.tied_embeddings = true;
  return s;
}

std::vector<std::int64_t> tokens_of(std::int64_t count, std::int64_t vocab, std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(static_cast<std::int64_t>(draw() % static_cast<std::uint64_t>(vocab)));
  return out;
}

// Logits (tokens, V) of one sequence by the whole forward.
at::Tensor whole(Model& model, const std::vector<std::int64_t>& tokens) {
  at::NoGradGuard no_grad;
  const auto length = static_cast<std::int64_t>(tokens.size());
  const at::Tensor row = at::tensor(tokens, at::kLong).view({1, length});
  return logits(model, {.tokens_BS = row, .positions_BS = at::arange(length, at::kLong).view({1, length})});
}

struct Case {
  const char* name;
  bool rich;
  at::ScalarType dtype;
  bool reference;
  double tolerance;  // relative, of a row of logits
};

class Extend : public testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<Model> model() const {
    const Case& c = GetParam();
    auto model = make_model(c.rich ? rich_spec() : tiny_spec(), c.dtype, c.reference);
    if (c.rich)
      for (int layer = 1; layer < 3; ++layer)
        model->selection_bias(layer).copy_(at::arange(6, at::kFloat) * 0.02 * (layer == 1 ? 1 : -1));
    return model;
  }
};

// Three sequences of unequal lengths, each in pieces of its own: prompts of several tokens (one longer than a block of
// 64 queries, one in two pieces), then single tokens beside a prompt that begins late. After each piece the logits of
// its last token are those of the whole sequence at that place.
TEST_P(Extend, GivesTheLogitsOfTheWholeSequence) {
  const auto m = model();
  const std::int64_t vocab = m->spec().vocab_size;
  const std::vector<std::vector<std::int64_t>> sequences = {tokens_of(90, vocab, 1), tokens_of(12, vocab, 2),
                                                            tokens_of(9, vocab, 3)};
  std::vector<at::Tensor> expected;
  for (const auto& s : sequences) expected.push_back(whole(*m, s));
  KeyValueCache cache = make_cache(m->spec(), m->hosted().layers, m->options(), 3, 90);
  // (sequence, tokens) of each step; sequence i lies in slot 2 - i.
  const std::vector<std::vector<std::pair<std::size_t, std::int64_t>>> steps = {
      {{0, 70}, {1, 3}}, {{1, 8}, {0, 1}}, {{2, 1}, {0, 17}, {1, 1}}, {{0, 1}, {2, 8}}, {{0, 1}}};
  std::vector<std::int64_t> done(3, 0);
  for (const auto& step : steps) {
    std::vector<SlotTokens> parts;
    for (const auto& [s, count] : step) {
      const auto first = sequences[s].begin() + done[s];
      parts.push_back({.slot = 2 - static_cast<std::int64_t>(s), .tokens = {first, first + count}});
      done[s] += count;
    }
    const at::Tensor found = next_logits(*m, follow(cache, parts), cache);
    ASSERT_EQ(found.size(0), static_cast<std::int64_t>(step.size()));
    for (std::size_t i = 0; i < step.size(); ++i) {
      const std::size_t s = step[i].first;
      const at::Tensor wanted = expected[s][done[s] - 1];
      EXPECT_LE(relative_error(found[static_cast<std::int64_t>(i)], wanted), GetParam().tolerance)
          << "sequence " << s << " after " << done[s];
    }
  }
  EXPECT_EQ(done, (std::vector<std::int64_t>{90, 12, 9}));
  EXPECT_EQ(cache.lengths, (std::vector<std::int64_t>{9, 12, 90}));
}

// The likeliest token, put behind the sequence, 40 times: the same tokens as by the whole forward of each prefix.
class ExtendGreedy : public Extend {};

TEST_P(ExtendGreedy, TokensAreThoseOfTheWholeForward) {
  const auto m = model();
  std::vector<std::int64_t> by_whole = tokens_of(5, m->spec().vocab_size, 4), by_cache = by_whole;
  KeyValueCache cache = make_cache(m->spec(), m->hosted().layers, m->options(), 1, 45);
  std::vector<std::int64_t> fresh_tokens = by_cache;
  for (int i = 0; i < 40; ++i) {
    by_whole.push_back(whole(*m, by_whole)[-1].argmax().item<std::int64_t>());
    fresh_tokens = {next_logits(*m, follow(cache, {{0, fresh_tokens}}), cache)[0].argmax().item<std::int64_t>()};
    by_cache.push_back(fresh_tokens[0]);
  }
  EXPECT_EQ(by_cache, by_whole);
}

const Case cases[] = {{"fused", false, at::kFloat, false, 1e-5},
                      {"fused_rich", true, at::kFloat, false, 1e-5},
                      {"fused_float64", true, at::kDouble, false, 1e-12},
                      {"reference", true, at::kFloat, true, 1e-5},
                      {"reference_float64", true, at::kDouble, true, 1e-12}};
// Rounding may choose between near logits, so no greedy test.
const Case bfloat16{"bfloat16", false, at::kBFloat16, false, 3e-2};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(All, Extend, testing::ValuesIn(cases), name_of);
INSTANTIATE_TEST_SUITE_P(Rounded, Extend, testing::Values(bfloat16), name_of);
INSTANTIATE_TEST_SUITE_P(All, ExtendGreedy, testing::ValuesIn(cases), name_of);

// A slot that is used again knows nothing of the sequence before.
TEST(KeyValueCacheTest, ClearedSlotBeginsAnew) {
  const auto m = make_model(tiny_spec(), at::kFloat, false);
  KeyValueCache cache = make_cache(m->spec(), m->hosted().layers, m->options(), 2, 20);
  const auto first = tokens_of(20, 99, 5), second = tokens_of(4, 99, 6);
  next_logits(*m, follow(cache, {{1, first}}), cache);
  cache.clear(1);
  EXPECT_LE(relative_error(next_logits(*m, follow(cache, {{1, second}}), cache)[0], whole(*m, second)[-1]), 1e-5);
}

// 2 (keys, values) x 2 layers x 2 key/value heads x 8 x 4 bytes = 256 bytes a token; 3 slots of 50 tokens.
TEST(KeyValueCacheTest, BytesAreThoseOfItsTokens) {
  const auto m = make_model(tiny_spec(), at::kFloat, false);
  EXPECT_EQ(make_cache(m->spec(), m->hosted().layers, m->options(), 3, 50).bytes(), 256 * 3 * 50);
  const ModelOptions half{.dtype = at::kBFloat16};
  EXPECT_EQ(make_cache(m->spec(), {.first_layer = 1, .num_layers = 1}, half, 3, 50).bytes(), 256 / 4 * 3 * 50);
}

TEST(KeyValueCacheTest, MisuseIsABug) {
  const auto m = make_model(tiny_spec(), at::kFloat, false);
  KeyValueCache cache = make_cache(m->spec(), m->hosted().layers, m->options(), 2, 4);
  EXPECT_THROW(follow(cache, {{0, {1, 2, 3, 4, 5}}}), std::logic_error);  // capacity
  EXPECT_THROW(follow(cache, {{0, {1}}, {0, {2}}}), std::logic_error);    // twice
  EXPECT_THROW(follow(cache, {{0, {}}}), std::logic_error);               // nothing
  EXPECT_THROW(follow(cache, {}), std::logic_error);
  EXPECT_THROW(next_logits(*m, follow(cache, {{0, {99}}}), cache), std::logic_error);  // outside of the vocabulary
}

// Rows of the left operands of the 2-D products (projections, router, experts, head; attention's own are batched),
// counted by ATen itself.
std::int64_t rows_multiplied(const std::function<void()>& work) {
  static std::int64_t rows;
  rows = 0;
  at::RecordFunctionCallback count([](const at::RecordFunction& f) -> std::unique_ptr<at::ObserverContext> {
    if (std::string_view(f.name()) == "aten::mm") rows += f.inputs()[0].toTensor().size(0);
    return nullptr;
  });
  const auto handle = at::addThreadLocalCallback(count.needsInputs(true));
  work();
  at::removeCallback(handle);
  return rows;
}

// A token costs the same products behind 3 tokens and behind 300. In the dense layer: qkv, output, gate and up, down:
// 4 rows. In the MoE layer: qkv, output, router: 3, and 2 for each of its top 2 experts (the others multiply no
// rows): 7. With the head 12.
TEST(ExtendCost, MultipliesTheNewTokensRowsAlone) {
  const auto m = make_model(tiny_spec(), at::kFloat, /*reference=*/true);
  KeyValueCache cache = make_cache(m->spec(), m->hosted().layers, m->options(), 1, 400);
  const auto add = [&](std::int64_t count) {
    return rows_multiplied([&] { next_logits(*m, follow(cache, {{0, tokens_of(count, 99, 7)}}), cache); });
  };
  add(3);
  EXPECT_EQ(add(1), 12);
  add(297);
  EXPECT_EQ(add(1), 12);
  EXPECT_EQ(add(5), 5 * 11 + 1);  // the head of the last one alone
}

// The fused kernels call BLAS without ATen, so their memory tells: what a token needs at most grows with the sequence
// by one score a key at a time, 4 bytes, and by nothing as wide as a token's hidden state.
TEST(ExtendCost, NeedsNoMemoryForThePrefix) {
  install_counting_allocator();
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto m = make_model(tiny_spec(), at::kFloat, false);
  KeyValueCache cache = make_cache(m->spec(), m->hosted().layers, m->options(), 1, 2100);
  const auto peak_of = [&](std::int64_t count) {
    const auto tokens = follow(cache, {{0, tokens_of(count, 99, 8)}});
    const std::int64_t before = current_tensor_bytes();
    reset_peak_tensor_bytes();
    next_logits(*m, tokens, cache);
    return peak_tensor_bytes() - before;
  };
  peak_of(40);
  const std::int64_t near = peak_of(1);  // the rotary table has its 256 positions by now
  peak_of(2000);
  peak_of(1);
  const std::int64_t far = peak_of(1);
  // 2,002 more keys; the prefix's hidden states alone would be 2,002 * 32 * 4 bytes. Rounding of allocations: 64 bytes
  // each.
  EXPECT_LE(far - near, 2002 * 4 + 4096);
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace trireme::nn
