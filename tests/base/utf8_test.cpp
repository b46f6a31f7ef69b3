#include "base/utf8.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

// The examples are RFC 3629's: section 3's table of lengths, and what it forbids.
TEST(Utf8, FindsTheFirstByteOfNoCharacter) {
  EXPECT_EQ(first_not_utf8(""), 0u);
  EXPECT_EQ(first_not_utf8("A\xE2\x89\xA2\xCE\x91."), 7u);          // section 7's first example, whole
  EXPECT_EQ(first_not_utf8("\xF0\xA3\x8E\xB4"), 4u);               // its last one, four bytes
  EXPECT_EQ(first_not_utf8("caf\xE9"), 3u);                         // Latin-1
  EXPECT_EQ(first_not_utf8("ab\xC0\x80"), 2u);                      // NUL in two bytes
  EXPECT_EQ(first_not_utf8("\xED\xA0\x80"), 0u);                   // a surrogate
  EXPECT_EQ(first_not_utf8("\xF4\x90\x80\x80"), 0u);               // beyond U+10FFFF
  EXPECT_EQ(first_not_utf8("x\xE2\x89"), 1u);                       // cut short
  EXPECT_EQ(first_not_utf8("\x80"), 0u);                            // starts nothing
}

}  // namespace
}  // namespace trireme
