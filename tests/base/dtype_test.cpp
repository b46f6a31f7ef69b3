#include "base/dtype.h"

#include <gtest/gtest.h>

#include "base/errors.h"

namespace trireme {
namespace {

TEST(DType, NamesAndSizes) {
  EXPECT_EQ(size_of(DType::float32), 4);
  EXPECT_EQ(size_of(DType::float64), 8);
  EXPECT_EQ(size_of(DType::bfloat16), 2);
  EXPECT_EQ(size_of(DType::float16), 2);
  for (DType d : {DType::float32, DType::float64, DType::bfloat16, DType::float16})
    EXPECT_EQ(dtype_from_name(name_of(d)), d);
  EXPECT_EQ(accumulate_dtype(DType::bfloat16), DType::float32);
  EXPECT_EQ(accumulate_dtype(DType::float64), DType::float64);
}

TEST(DType, UnknownNameSaysWhatIsAllowed) {
  try {
    dtype_from_name("fp32");
    FAIL() << "no exception";
  } catch (const ConfigError& e) {
    EXPECT_STREQ(e.what(), "fp32: expected float32, float64, bfloat16 or float16");
  }
}

}  // namespace
}  // namespace trireme
