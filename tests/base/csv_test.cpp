#include "base/csv.h"

#include <gtest/gtest.h>

#include "base/errors.h"

namespace trireme {
namespace {

TEST(Csv, QuotedFieldsHoldCommasQuotesAndLineEnds) {
  const CsvTable t = parse_csv("a,b,c\r\n1,\"x, \"\"y\"\"\nz\",\r\n\n4,5,6", "t.csv");
  ASSERT_EQ(t.rows.size(), 2u);
  EXPECT_EQ(t.at(0, "b"), "x, \"y\"\nz");
  EXPECT_EQ(t.at(0, "c"), "");
  EXPECT_EQ(t.at(1, "c"), "6");
  EXPECT_EQ(t.at(1, "no such column"), "");
  // The first row takes lines 2 and 3, line 4 is blank.
  EXPECT_EQ(t.lines, (std::vector<int>{2, 5}));
}

std::string error_of(const char* text) {
  try {
    parse_csv(text, "t.csv");
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

TEST(Csv, ErrorsSayTheLine) {
  EXPECT_NE(error_of("").find("header"), std::string::npos);
  EXPECT_NE(error_of("a,b\n1,2\n1,2,3\n").find("t.csv:3"), std::string::npos);
  EXPECT_NE(error_of("a,b\n1,\"2\n").find("quote"), std::string::npos);
  EXPECT_NE(error_of("a,a\n").find("twice"), std::string::npos);
}

}  // namespace
}  // namespace trireme
