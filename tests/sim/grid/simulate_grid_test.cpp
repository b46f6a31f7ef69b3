#include "sim/grid/simulate_grid.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "plan/pipeline/gpipe.h"
#include "plan/pipeline/one_f_one_b.h"
#include "sim/grid/grid_costs.h"
#include "sim/simulate.h"
#include "sim/slot_plan.h"

namespace trireme::sim {
namespace {

using plan::parse_schedule;
using plan::Schedule;
using plan::Slot;
using plan::SlotKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Huang et al. 2019, Narayanan et al. 2021: idle (p - 1) of (m + p - 1) with equal stages and free messages.
TEST(SimulateGrid, GpipeAndOneFOneBIdleForThePublishedPart) {
  for (int p : {1, 2, 3, 8, 16})
    for (int m : {1, 2, 5, 32, 63})
      for (const Schedule& s : {plan::gpipe(p, m), plan::one_f_one_b(p, m)}) {
        const GridResult r = simulate_grid(compile(s), equal_costs(s));
        EXPECT_NEAR(r.makespan_s, (m + p - 1) * 3.0, 1e-9) << to_text(s);
        EXPECT_NEAR(r.bubble_fraction(), (p - 1.0) / (m + p - 1), 1e-12) << to_text(s);
      }
}

}  // namespace
}  // namespace trireme::sim
