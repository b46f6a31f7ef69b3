#include "plan/run_warnings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

RunSpec run_of(LearningRateSpec schedule, DType dtype = DType::float32) {
  RunSpec run;
  run.train.steps = 10;
  run.train.schedule = schedule;
  run.device.dtype = dtype;
  return run;
}

TEST(RunWarnings, SayNothingOfAnOrdinaryRun) {
  EXPECT_THAT(warnings(run_of({.warmup_steps = 10})), IsEmpty());
  EXPECT_THAT(warnings(run_of({.kind = "wsd", .warmup_steps = 4, .decay_steps = 6})), IsEmpty());
  EXPECT_THAT(warnings(run_of({.decay_steps = 100})), IsEmpty());  // cosine does not look at it
}

// A linear warm-up over 40 steps has reached 10 / 40 after ten.
TEST(RunWarnings, NameAWarmUpThatIsLongerThanTheRun) {
  EXPECT_THAT(warnings(run_of({.warmup_steps = 40})), ElementsAre(HasSubstr("warmup_steps = 40 is more than train.steps (10): the learning "
                                                                           "rate only rises, to 0.25 of its")));
}

TEST(RunWarnings, NameADecayThatIsLongerThanTheRun) {
  EXPECT_THAT(warnings(run_of({.kind = "wsd", .decay_steps = 11})), ElementsAre(HasSubstr("decay_steps = 11 is more than train.steps (10)")));
  EXPECT_THAT(warnings(run_of({.kind = "wsd", .warmup_steps = 5, .decay_steps = 6})), ElementsAre(HasSubstr("within the warm-up")));
}

TEST(RunWarnings, NameADtypeThatTheDeviceIsSlowIn) {
  EXPECT_THAT(warnings(run_of({}, DType::float16)), ElementsAre(HasSubstr("float16 is slow on a CPU")));
  EXPECT_THAT(warnings(run_of({}, DType::float64)), ElementsAre(HasSubstr("float64 takes 2.3 times")));
  RunSpec device = run_of({}, DType::float16);
  device.device.device = "cuda";
  EXPECT_THAT(warnings(device), IsEmpty());
}

}  // namespace
}  // namespace trireme::plan
