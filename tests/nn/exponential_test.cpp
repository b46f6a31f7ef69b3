#include <gtest/gtest.h>

#include <cmath>

#include "nn/cpu/simd.h"

namespace trireme::nn::cpu {
namespace {

// Against the C library in the wider type.
TEST(Exponential, IsWithinTwoUnitsInTheLastPlace) {
  for (double x = -69.6; x < 88.0; x += 0.00917) {
    const double expected = std::exp(static_cast<double>(static_cast<float>(x)));
    EXPECT_NEAR(exponential(static_cast<float>(x)) / expected, 1.0, 2.4e-7) << x;
  }
  for (double x = -699.6; x < 708.0; x += 0.0917)
    EXPECT_NEAR(static_cast<double>(static_cast<long double>(exponential(x)) / std::exp(static_cast<long double>(x))),
                1.0, 4.5e-16)
        << x;
}

TEST(Exponential, EndsInZeroAndStaysFinite) {
  EXPECT_EQ(exponential(-70.5f), 0.0f);
  EXPECT_EQ(exponential(-1e30f), 0.0f);
  EXPECT_EQ(exponential(-701.0), 0.0);
  EXPECT_TRUE(std::isfinite(exponential(1e30f)));
  EXPECT_TRUE(std::isfinite(exponential(1e300)));
  EXPECT_EQ(exponential(0.0f), 1.0f);
}

}  // namespace
}  // namespace trireme::nn::cpu
