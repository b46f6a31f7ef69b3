#include "report/colours.h"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

namespace trireme::report {
namespace {

struct Rgb {
  double r, g, b;
};

Rgb linear(const std::string& hex) {
  const auto channel = [&](int at) {
    const double c = std::stoi(hex.substr(static_cast<std::size_t>(at), 2), nullptr, 16) / 255.0;
    return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);  // sRGB, IEC 61966-2-1
  };
  return {channel(1), channel(3), channel(5)};
}

// As somebody without red-sensitive (protanopia) or green-sensitive cones (deuteranopia) sees it: Viénot, Brettel and Mollon
// 1999, "Digital video colourmaps for checking the legibility of displays by dichromats", as matrices of linear RGB.
Rgb protan(Rgb c) { return {0.11238 * c.r + 0.88762 * c.g, 0.11238 * c.r + 0.88762 * c.g, 0.00401 * c.r - 0.00401 * c.g + c.b}; }
Rgb deutan(Rgb c) { return {0.29275 * c.r + 0.70725 * c.g, 0.29275 * c.r + 0.70725 * c.g, -0.02234 * c.r + 0.02234 * c.g + c.b}; }

// Distance in CIELAB (D65): 2.3 is what is just seen.
double distance(Rgb x, Rgb y) {
  const auto lab = [](Rgb c) {
    const auto f = [](double t) { return t > 0.008856 ? std::cbrt(t) : 7.787 * t + 16.0 / 116; };
    const double X = f((0.4124 * c.r + 0.3576 * c.g + 0.1805 * c.b) / 0.9505), Y = f(0.2126 * c.r + 0.7152 * c.g + 0.0722 * c.b),
                 Z = f((0.0193 * c.r + 0.1192 * c.g + 0.9505 * c.b) / 1.089);
    return Rgb{116 * Y - 16, 500 * (X - Y), 200 * (Y - Z)};
  };
  const Rgb a = lab(x), b = lab(y);
  return std::sqrt((a.r - b.r) * (a.r - b.r) + (a.g - b.g) * (a.g - b.g) + (a.b - b.b) * (a.b - b.b));
}

// Every kind that a run with experts over several stages has (report/action_kinds.h, docs/report.md).
const std::vector<std::string> kinds = {
    "load_batch",        "count_tokens",       "forward embed",      "forward attention", "all_to_all forward dispatch",
    "forward shared",    "forward experts",    "all_to_all forward combine", "forward combine", "forward mlp", "forward head",
    "send forward",      "receive forward",    "backward head",      "backward combine",  "all_to_all backward combine",
    "backward experts",  "backward shared",    "all_to_all backward dispatch", "backward attention", "backward mlp", "backward embed",
    "send backward",     "receive backward",   "reduce dense",       "reduce experts",    "reduce_metrics",
    "reduce_counts",     "gradient_norm",      "optimizer",          "all_to_all phase local", "all_to_all phase remote"};

TEST(Colours, AreAllDifferent) {
  const auto colours = colours_of(kinds);
  ASSERT_EQ(colours.size(), kinds.size());
  EXPECT_EQ(std::set<std::string>(colours.begin(), colours.end()).size(), kinds.size());
}

// What lies side by side in time on one rank: the passes, their exchanges, and the ends of a step.
TEST(Colours, DifferForColourBlindReadersToo) {
  const auto colours = colours_of(kinds);
  const auto group = [](const std::string& kind) { return kind.substr(0, kind.find(' ')); };
  const std::set<std::string> looked_at = {"forward", "backward", "all_to_all", "optimizer"};
  for (std::size_t i = 0; i < kinds.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      if (group(kinds[i]) == group(kinds[j]) || !looked_at.contains(group(kinds[i])) || !looked_at.contains(group(kinds[j]))) continue;
      const Rgb a = linear(colours[i]), b = linear(colours[j]);
      for (const double d : {distance(a, b), distance(protan(a), protan(b)), distance(deutan(a), deutan(b))})
        EXPECT_GT(d, 10) << kinds[i] << " " << colours[i] << ", " << kinds[j] << " " << colours[j];
    }
}

TEST(Colours, OfAPaletteDiffer) {
  for (std::size_t i = 0; i < palette().size(); ++i)
    for (std::size_t j = 0; j < i; ++j) EXPECT_GT(distance(linear(palette()[i]), linear(palette()[j])), 10);
}

}  // namespace
}  // namespace trireme::report
