#include "base/printable.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/json_text.h"

namespace trireme {
namespace {

TEST(Printable, LeavesTextAsItIs) {
  for (const char* text : {"", "layout.pp = 2", "Größe", "数据", "a\\nb", "😀"}) EXPECT_EQ(printable(text), text);
}

// Line ends, an escape code that clears the screen, DEL, a C1 control (U+009B, which terminals take for ESC [), a line
// separator and a mark that turns the direction of writing.
TEST(Printable, EscapesWhatMovesTheCursor) {
  EXPECT_EQ(printable("a\nb\r\tc"), "a\\nb\\r\\tc");
  EXPECT_EQ(printable("\x1b[2J"), "\\x1b[2J");
  EXPECT_EQ(printable("\x7f"), "\\x7f");
  EXPECT_EQ(printable("\xC2\x9B"), "\\u009b");
  EXPECT_EQ(printable("\xE2\x80\xA8"), "\\u2028");
  EXPECT_EQ(printable("\xE2\x80\xAE"), "\\u202e");
}

TEST(Printable, EscapesBytesThatAreNoCharacter) {
  EXPECT_EQ(printable("caf\xE9.toml"), "caf\\xe9.toml");
  EXPECT_EQ(printable("\xE2\x89"), "\\xe2\\x89");
}

TEST(Printable, IsWhatErrorsSay) {
  EXPECT_STREQ(ConfigError({.file = "r\n.toml", .key = "layout.\x1b[1m", .value = "\xff", .allowed = "no"}).what(),
               "r\\n.toml: layout.\\x1b[1m = \\xff: no");
  EXPECT_STREQ(RuntimeFailure({.rank = 1, .reason = "a\nb"}).what(), "rank 1: a\\nb");
}

TEST(JsonText, ReplacesWhatIsNotUtf8) { EXPECT_EQ(json_text(nlohmann::json("a\xff")), "\"a\xEF\xBF\xBD\""); }

}  // namespace
}  // namespace trireme
