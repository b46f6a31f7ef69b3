#include "report/colours.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

namespace trireme::report {

namespace {

// Lightness besides hue: what is looked at side by side differs in both. Hues are those of Okabe and Ito's palette.
struct Tone {
  const char* prefix;
  double hue, saturation, darkest, lightest;
};
constexpr Tone tones[] = {
    {"forward", 202, 0.95, 0.24, 0.50},      {"backward", 27, 0.95, 0.42, 0.70},    {"input_gradient", 27, 0.95, 0.36, 0.40},
    {"weight_gradient", 27, 0.95, 0.72, 0.76}, {"all_to_all", 164, 0.90, 0.16, 0.62}, {"send", 327, 0.50, 0.42, 0.50},
    {"receive", 300, 0.45, 0.66, 0.76},      {"reduce", 0, 0.0, 0.26, 0.40},         {"gather", 0, 0.0, 0.20, 0.22},
    {"optimizer", 56, 0.85, 0.48, 0.52},     {"gradient_norm", 56, 0.85, 0.34, 0.36}, {"load_batch", 0, 0.0, 0.62, 0.64},
    {"count_tokens", 0, 0.0, 0.74, 0.76},    {"pair", 250, 0.50, 0.40, 0.60},       {"swap", 190, 0.40, 0.45, 0.65},
    {"", 0, 0.0, 0.46, 0.58},
};

std::size_t tone_of(const std::string& kind) {
  for (std::size_t i = 0; i < std::size(tones); ++i)
    if (kind.starts_with(tones[i].prefix)) return i;
  return std::size(tones) - 1;
}

std::string hex(double hue, double saturation, double lightness) {
  const double chroma = (1 - std::abs(2 * lightness - 1)) * saturation;
  const auto channel = [&](double shift) {
    const double k = std::fmod(shift + hue / 30, 12);
    return std::clamp(static_cast<int>(std::lround(255 * (lightness - chroma / 2 * std::max(-1.0, std::min({k - 3, 9 - k, 1.0}))))), 0, 255);
  };
  return fmt::format("#{:02x}{:02x}{:02x}", channel(0), channel(8), channel(4));
}

}  // namespace

std::vector<std::string> colours_of(const std::vector<std::string>& kinds) {
  std::vector<std::size_t> shares(std::size(tones)), used(std::size(tones));
  for (const std::string& kind : kinds) ++shares[tone_of(kind)];
  std::vector<std::string> out;
  for (const std::string& kind : kinds) {
    const std::size_t t = tone_of(kind);
    const double at = shares[t] > 1 ? static_cast<double>(used[t]++) / static_cast<double>(shares[t] - 1) : 0.5;
    out.push_back(hex(tones[t].hue, tones[t].saturation, tones[t].darkest + at * (tones[t].lightest - tones[t].darkest)));
  }
  return out;
}

const std::vector<std::string>& palette() {
  static const std::vector<std::string> colours = {"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#777777"};
  return colours;
}

}  // namespace trireme::report
