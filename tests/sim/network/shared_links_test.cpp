#include "sim/network/shared_links.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace trireme::sim {
namespace {

TEST(SharedLinks, FlowsHaveEqualParts) {
  SharedLinks links(2);
  EXPECT_TRUE(links.idle());
  links.add(0, 0, 1, 10);
  links.add(0, 0, 3, 11);
  links.add(0, 1, 5, 12);
  // Both get half: the first has its 1 s of work after 2 s, and then the second its last 2 alone.
  EXPECT_DOUBLE_EQ(links.next_s(), 2);
  EXPECT_EQ(links.end_next(), 10);
  EXPECT_DOUBLE_EQ(links.next_s(), 4);
  // One that comes at 3 s finds 1 s of work left of the second: they share, 2 s each.
  links.add(3, 0, 1, 13);
  EXPECT_DOUBLE_EQ(links.next_s(), 5);
  std::vector<int> rest;
  while (!links.idle()) {
    EXPECT_DOUBLE_EQ(links.next_s(), 5);
    rest.push_back(links.end_next());
  }
  std::sort(rest.begin(), rest.end());
  EXPECT_EQ(rest, (std::vector{11, 12, 13}));
}

// A link that has work never rests: from its first to its last flow it takes the sum of their work.
TEST(SharedLinks, DoAllTheWorkInItsTime) {
  SharedLinks links(5);
  std::vector<double> work(5, 0), begin(5, 0), end(5, 0);
  std::vector<std::size_t> link_of;
  for (int i = 0; i < 400; ++i) {
    const auto at = static_cast<std::uint64_t>(i);
    const auto link = static_cast<std::size_t>(random_bits(3, at) % 5);
    // All come within 4 s, while so many share that none has its half second yet.
    ASSERT_TRUE(links.idle() || links.next_s() > i * 0.01);
    const double seconds = 0.5 + random_uniform(4, at);
    links.add(i * 0.01, static_cast<int>(link), seconds, i);
    link_of.push_back(link);
    if (work[link] == 0) begin[link] = i * 0.01;
    work[link] += seconds;
  }
  double last = 0;
  while (!links.idle()) {
    const double time = links.next_s();
    EXPECT_GE(time, last);
    last = time;
    end[link_of[static_cast<std::size_t>(links.end_next())]] = time;
  }
  for (std::size_t l = 0; l < 5; ++l) EXPECT_NEAR(end[l] - begin[l], work[l], 1e-9);
}

}  // namespace
}  // namespace trireme::sim
