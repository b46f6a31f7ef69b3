// What freezing does to the optimizer, the gradient norm and checkpoints.
#include <cmath>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/checkpoint_writer.h"
#include "train/checkpoint_fixture.h"
#include "train/optim/gradient_norm.h"
#include "train/scratch_folder.h"

namespace trireme::train {
namespace {

using Patterns = std::vector<std::string>;

// A stored parameter of three pieces of two elements: a, b, c, all 1, with gradients of 2.
nn::Parameter three_pieces() {
  nn::Parameter p;
  p.name = "stored";
  p.value = at::ones({6}).requires_grad_(true);
  p.grad = at::full({6}, 2.0f);
  for (int i = 0; i < 3; ++i) {
    nn::Piece piece;
    piece.spec.name = std::string(1, static_cast<char>('a' + i));
    piece.spec.shape = {2};
    piece.offset = 2 * i;
    p.pieces.push_back(piece);
  }
  return p;
}

// By hand in adamw_test.cpp: a gradient of 2 at lr 0.1, betas 0.5 and 0.75, decay 0.5 takes 1 to 0.85.
TEST(Freezing, AFrozenPieceStaysWhatItIsAndHasNoState) {
  for (const bool reference : {false, true}) {
    const std::vector<std::pair<const char*, std::vector<float>>> cases = {{"a", {1, 1, 0.85f, 0.85f, 0.85f, 0.85f}},
                                                                           {"b", {0.85f, 0.85f, 1, 1, 0.85f, 0.85f}},
                                                                           {"[bc]", {0.85f, 0.85f, 1, 1, 1, 1}}};
    for (const auto& [pattern, left] : cases) {
      nn::Parameter p = three_pieces();
      const plan::FrozenParameters frozen(Patterns{pattern});
      AdamW optimizer({&p}, {.beta1 = 0.5, .beta2 = 0.75, .weight_decay = 0.5, .frozen = frozen, .reference = reference});
      optimizer.step(0.1);
      EXPECT_TRUE(at::allclose(p.value.detach(), at::tensor(left), 0, 1e-6)) << pattern << p.value;
      int trained = 0;
      for (const nn::Piece& piece : p.pieces) {
        const AdamW::PieceState state = optimizer.piece_state(p, piece);
        EXPECT_EQ(state.exp_avg.defined(), !frozen.has(piece.spec.name));
        if (!state.exp_avg.defined()) continue;
        ++trained;
        // m = 0.5 x 2, v = 0.25 x 4.
        EXPECT_TRUE(at::equal(state.exp_avg, at::ones({2})));
        EXPECT_TRUE(at::equal(state.exp_avg_sq, at::ones({2})));
      }
      EXPECT_EQ(optimizer.bytes(), trained * 2 * 2 * 4) << "two moments of two float32 a trained piece";
    }
  }
}

TEST(Freezing, NormsAndBiasesDecayWhereTheRunSaysSo) {
  // No gradient: only the decay moves the value, 1 - 0.1 x 0.5.
  for (const bool decay : {false, true}) {
    nn::Parameter p = three_pieces();
    p.weight_decay = false;
    p.grad.zero_();
    AdamW optimizer({&p}, {.weight_decay = 0.5, .decay_norms_and_biases = decay});
    optimizer.step(0.1);
    EXPECT_NEAR(p.value[0].item<double>(), decay ? 0.95 : 1.0, 1e-7);
  }
}

// Six gradients of 2 have the squares' sum 24; two pieces less, 8.
TEST(Freezing, FrozenGradientsAreNotInTheNorm) {
  nn::Parameter p = three_pieces();
  EXPECT_DOUBLE_EQ(sum_of_squares({&p}, {}), 24);
  EXPECT_DOUBLE_EQ(sum_of_squares({&p}, {}, plan::FrozenParameters({"a", "c"})), 8);
  p.grad[0] = std::nanf("");
  EXPECT_TRUE(std::isnan(sum_of_squares({&p}, {})));
  EXPECT_DOUBLE_EQ(sum_of_squares({&p}, {}, plan::FrozenParameters({"a"})), 16) << "a NaN of a frozen one is nothing";
}

RankPart part(at::ScalarType dtype, const Patterns& freeze) {
  RankPart out = make_rank(small_model(), {.pp = 1, .dp = 1, .ep = 1}, 0, dtype);
  out.optimizer = std::make_unique<AdamW>(out.model->parameters(), AdamWOptions{.frozen = plan::FrozenParameters(freeze)});
  return out;
}

void save(const RankPart& from, const std::filesystem::path& folder, const Patterns& freeze, const nlohmann::json& state) {
  CheckpointWriter writer({.folder = folder, .model = small_model(), .frozen = plan::FrozenParameters(freeze)},
                          std::make_shared<InProcessCommitBarrier>());
  writer.save(5, from.owned(), state);
  writer.finish();
}

TEST(Freezing, ACheckpointHoldsValuesAndNoStateOfFrozenParameters) {
  const Patterns freeze = {"*.router.weight", "layers.2.experts.1.*"};
  ScratchFolder scratch;
  RankPart before = part(at::kBFloat16, freeze);
  fill_by_name(before.hosted());
  save(before, scratch.path(), freeze, {{"frozen", freeze}});
  const CheckpointReader reader(latest_checkpoint(scratch.path())->path);
  for (const char* name : {"layers.1.router.weight", "layers.2.experts.1.up.weight"}) {
    EXPECT_TRUE(reader.has(name));
    for (const char* kind : {"optimizer.exp_avg.", "optimizer.exp_avg_sq.", "optimizer.master."})
      EXPECT_FALSE(reader.has(std::string(kind) + name)) << kind << name;
  }
  EXPECT_TRUE(reader.has("optimizer.master.layers.2.experts.0.up.weight"));
  // And back, bit for bit.
  RankPart after = part(at::kBFloat16, freeze);
  resume(reader, *after.model, *after.optimizer);
  const auto a = before.hosted(), b = after.hosted();
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i].tensor, b[i].tensor)) << a[i].name;
}

TEST(Freezing, WhatIsTrainedAgainStartsWithStateOfZero) {
  const Patterns freeze = {"*.router.weight"};
  ScratchFolder scratch;
  RankPart before = part(at::kBFloat16, freeze);
  fill_by_name(before.hosted());
  save(before, scratch.path(), freeze, {{"frozen", freeze}});
  const CheckpointReader reader(latest_checkpoint(scratch.path())->path);
  RankPart after = part(at::kBFloat16, {"embed.weight"});
  fill_by_name(after.hosted());  // in its state as it may be where a run goes back
  resume(reader, *after.model, *after.optimizer);
  bool seen = false;
  for (const nn::Parameter* p : after.model->parameters())
    for (const nn::Piece& piece : p->pieces) {
      const AdamW::PieceState state = after.optimizer->piece_state(*p, piece);
      const at::Tensor value = p->piece_value(piece);
      EXPECT_TRUE(at::equal(value, reader.tensor(piece.spec.name))) << piece.spec.name;
      if (piece.spec.name == "embed.weight") {
        EXPECT_FALSE(state.exp_avg.defined()) << "frozen now: its state is left behind";
      } else if (piece.spec.name.ends_with("router.weight")) {
        seen = true;
        EXPECT_EQ(at::count_nonzero(state.exp_avg).item<std::int64_t>(), 0);
        EXPECT_EQ(at::count_nonzero(state.exp_avg_sq).item<std::int64_t>(), 0);
        EXPECT_TRUE(at::equal(state.master, value.to(at::kFloat)));
      } else {
        EXPECT_TRUE(at::equal(state.exp_avg, reader.tensor("optimizer.exp_avg." + piece.spec.name))) << piece.spec.name;
      }
    }
  EXPECT_TRUE(seen);
}

TEST(Freezing, StateThatIsMissingForAnotherReasonIsAnError) {
  const Patterns freeze = {"*.router.weight"};
  ScratchFolder scratch;
  save(part(at::kFloat, freeze), scratch.path(), freeze, nlohmann::json::object());  // the state does not say so
  RankPart after = part(at::kFloat, {});
  EXPECT_THROW(resume(CheckpointReader(latest_checkpoint(scratch.path())->path), *after.model, *after.optimizer), ConfigError);
}

TEST(Freezing, ACheckpointWithoutTheStateOfATrainedParameterIsNotWritten) {
  ScratchFolder scratch;
  EXPECT_THROW(save(part(at::kFloat, {"*.router.weight"}), scratch.path(), {}, nlohmann::json::object()), RuntimeFailure);
}

TEST(Freezing, AListThatIsNoneIsBadInput) {
  ScratchFolder scratch;
  save(part(at::kFloat, {}), scratch.path(), {}, {{"frozen", "embed"}});
  RankPart after = part(at::kFloat, {});
  try {
    resume(CheckpointReader(latest_checkpoint(scratch.path())->path), *after.model, *after.optimizer);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.detail().key, "frozen");
  }
}

}  // namespace
}  // namespace trireme::train
