#include "base/csv_table.h"

#include <gmock/gmock.h>

#include "base/errors.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;

std::string error_of(const auto& act) {
  try {
    act();
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}

TEST(CsvTable, ReadsPlainAndQuotedFields) {
  const CsvTable t =
      CsvTable::from_text("\xef\xbb\xbfname,x,note\r\n\"a, \"\"b\"\"\",1.5,\"two\nlines\"\r\n\r\nc,,\r\n", "t.csv");
  EXPECT_THAT(t.columns(), ElementsAre("name", "x", "note"));
  ASSERT_EQ(t.num_rows(), 2u);
  EXPECT_EQ(t.text(0, "name"), "a, \"b\"");
  EXPECT_EQ(t.text(0, "note"), "two\nlines");
  EXPECT_EQ(t.number(0, "x"), 1.5);
  EXPECT_EQ(t.text(1, "name"), "c");
  EXPECT_EQ(t.number(1, "x"), std::nullopt);
  EXPECT_EQ(t.line(0), 2);
  EXPECT_EQ(t.line(1), 5);  // the first row has two lines, and an empty one follows
}

TEST(CsvTable, ALastLineNeedsNoEnd) {
  EXPECT_EQ(CsvTable::from_text("a,b\n1,2", "t.csv").integer(0, "b"), 2);
  EXPECT_EQ(CsvTable::from_text("a,b\n1,", "t.csv").text(0, "b"), "");
  EXPECT_EQ(CsvTable::from_text("a,b\n", "t.csv").num_rows(), 0u);
}

TEST(CsvTable, ColumnsThatAreNotThereAreEmptyOrAnError) {
  const CsvTable t = CsvTable::from_text("a\n1\n", "t.csv");
  EXPECT_EQ(t.text(0, "b"), "");
  EXPECT_EQ(t.integer(0, "b"), std::nullopt);
  EXPECT_EQ(error_of([&] { t.require_columns({"a", "b"}); }), "t.csv: b: this column is missing");
}

TEST(CsvTable, NumbersAreChecked) {
  const CsvTable t = CsvTable::from_text("a,b\n1x,2.5\n8.0,1e3\nnan,-7\n", "t.csv");
  EXPECT_EQ(error_of([&] { t.number(0, "a"); }), "t.csv: line 2, column a = 1x: expected a number");
  EXPECT_EQ(error_of([&] { t.integer(0, "b"); }), "t.csv: line 2, column b = 2.5: expected an integer");
  EXPECT_EQ(error_of([&] { t.number(2, "a"); }), "t.csv: line 4, column a = nan: expected a number");
  EXPECT_EQ(t.integer(1, "a"), 8);
  EXPECT_EQ(t.integer(1, "b"), 1000);
  EXPECT_EQ(t.integer(2, "b"), -7);
}

TEST(CsvTable, BrokenFilesAreNamed) {
  EXPECT_EQ(error_of([] { CsvTable::from_text("", "t.csv"); }), "t.csv: is empty: expected a line of column names");
  EXPECT_EQ(error_of([] { CsvTable::from_text("a,b\n1,2\n1\n", "t.csv"); }),
            "t.csv: line 3 = 1 fields: expected 2, as the first line has");
  EXPECT_EQ(error_of([] { CsvTable::from_text("a\n\"x\n", "t.csv"); }), "t.csv: line 2: a quote that is never closed");
  EXPECT_EQ(error_of([] { CsvTable::from_text("a\n\"x\"y\n", "t.csv"); }),
            "t.csv: line 2: text behind a closing quote: quote the whole field, or double the quote");
  EXPECT_EQ(error_of([] { CsvTable::from_file("absent.csv"); }), "absent.csv: no such file, or it cannot be read");
  EXPECT_EQ(error_of([] { CsvTable::from_file("/"); }), "/: is a folder: expected a file");
  EXPECT_EQ(error_of([] { CsvTable::from_text("a,b,a\n1,2,3\n", "t.csv"); }), "t.csv: a: two columns have this name");
  EXPECT_EQ(CsvTable::from_text("a,,\n1,2,3\n", "t.csv").num_rows(), 1u);
  EXPECT_EQ(error_of([] { CsvTable::from_text("a\nb\ncaf\xe9\n", "t.csv"); }),
            "t.csv: line 3: not UTF-8: save the table in that encoding");
}

}  // namespace
}  // namespace trireme
