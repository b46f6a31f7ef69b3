#include "base/letter_case.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(LetterCase, ChangesLettersOnly) {
  EXPECT_EQ(lower_case("H100 PCIe, 8x"), "h100 pcie, 8x");
  EXPECT_EQ(upper_case("H100 PCIe, 8x"), "H100 PCIE, 8X");
  EXPECT_EQ(lower_case("\xc3\x84"), "\xc3\x84");  // not ASCII
}

}  // namespace
}  // namespace trireme
