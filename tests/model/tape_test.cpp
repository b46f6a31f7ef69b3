#include "model/description/tape.h"

#include <gtest/gtest.h>

namespace trireme::model {
namespace {

constexpr int none = Tape::none;

// x(8) -> a -> y(4) -> b -> z(2); a keeps x, b keeps y.
Tape chain(int group = none) {
  Tape t;
  const int x = t.tensor("x", 8), y = t.tensor("y", 4), z = t.tensor("z", 2);
  t.add({.name = "a", .in = {x}, .out = {y}, .saved = {x}, .group = group, .has_weight = true});
  t.add({.name = "b", .in = {y}, .out = {z}, .saved = {y}, .group = group, .has_weight = true});
  return t;
}

TEST(MemoryTape, KeepsWhatOperatorsSave) {
  const TapeMemory m = run_tape(chain());
  EXPECT_EQ(m.saved, 12);         // x and y
  EXPECT_EQ(m.forward_peak, 14);  // and z
  // Saved 12 and z's gradient 2; b makes y's gradient 4: 18; z's gradient and y go: 12; a makes x's gradient 8: 20.
  EXPECT_EQ(m.backward_peak, 20);
  EXPECT_STREQ(m.backward_peak_at, "a");
}

TEST(MemoryTape, FreesWhatNobodySaves) {
  Tape t;
  const int x = t.tensor("x", 8), y = t.tensor("y", 4), z = t.tensor("z", 2);
  t.add({.name = "a", .in = {x}, .out = {y}});
  t.add({.name = "b", .in = {y}, .out = {z}});
  const TapeMemory m = run_tape(t);
  EXPECT_EQ(m.saved, 0);
  EXPECT_EQ(m.forward_peak, 12);   // x and y; then y and z
  EXPECT_EQ(m.backward_peak, 12);  // gradients of y and x
}

TEST(MemoryTape, ACheckpointKeepsItsInputOnly) {
  const TapeMemory m = run_tape(chain(0));
  EXPECT_EQ(m.saved, 8);
  // z's gradient 2 and x 8; run again: y 4 and for a moment z 2: 16; backward as above: 20.
  EXPECT_EQ(m.backward_peak, 20);
}

TEST(MemoryTape, AnOutputIsMadeAgainForItsUser) {
  Tape t;
  const int x = t.tensor("x", 8), y = t.tensor("y", 4), z = t.tensor("z", 2);
  t.groups[0] = Rerun::output;
  t.add({.name = "norm", .in = {x}, .out = {y}, .saved = {x}, .group = 0});
  t.add({.name = "matmul", .in = {y}, .out = {z}, .saved = {y}, .has_weight = true});
  EXPECT_EQ(run_tape(t).saved, 8);
  EXPECT_EQ(run_tape(t).backward_peak, 20);  // y is back for the matmul: as without recomputation
}

TEST(MemoryTape, ASumHandsItsGradientOn) {
  // out = branch(x) + x: x's gradient through the sum is the output's own; the branch's is added to it.
  Tape t;
  const int x = t.tensor("x", 8), b = t.tensor("b", 8), out = t.tensor("out", 8);
  t.add({.name = "branch", .in = {x}, .out = {b}, .saved = {x}});
  t.add({.name = "sum", .in = {b, x}, .out = {out}, .passes_gradient = true});
  const TapeMemory m = run_tape(t);
  EXPECT_EQ(m.saved, 8);
  EXPECT_EQ(m.backward_peak, 24);  // x, the output's gradient (also b's and x's first), and the branch's gradient of x
}

TEST(MemoryTape, DelayedWeightGradientsKeepInputsAndOutputGradients) {
  const TapeMemory m = run_tape(chain());
  EXPECT_EQ(m.weight_held, 8 + 4 + 4 + 2);  // x with y's gradient, y with z's
  EXPECT_EQ(m.input_peak, 12 + 2 + 4 + 8);  // nothing goes until x's gradient is there
}

TEST(MemoryTape, AGradientCanTakeItsTensorsPlace) {
  Tape t;
  const int x = t.tensor("x", 8), l = t.tensor("logits", 100), loss = t.tensor("loss", 1);
  t.add({.name = "head", .in = {x}, .out = {l}, .saved = {x}});
  t.add({.name = "loss", .in = {l}, .out = {loss}, .saved = {l}, .gradient_in_place = true});
  EXPECT_EQ(run_tape(t).saved, 108);
  EXPECT_EQ(run_tape(t).backward_peak, 116);  // x, logits' gradient in the logits, x's gradient
}

}  // namespace
}  // namespace trireme::model
