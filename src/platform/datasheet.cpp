#include "platform/datasheet.h"

#include <array>
#include <utility>

namespace trireme::platform {

double Datasheet::peak(std::string_view format) const {
  const auto find = [&](std::string_view name) {
    for (const FormatPeak& p : peaks)
      if (p.format == name) return p.flops_per_s;
    return 0.0;
  };
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> instead{{{"nvfp4", "float8"},
                                                                                         {"mxfp8", "float8"},
                                                                                         {"float8", "bfloat16"},
                                                                                         {"bfloat16", "float16"},
                                                                                         {"float16", "bfloat16"},
                                                                                         {"float32", ""}}};
  // At most one hop a format: float16 and bfloat16 point at one another.
  for (std::size_t hops = 0; hops < instead.size() && !format.empty(); ++hops) {
    if (const double found = find(format)) return found;
    std::string_view next;
    for (const auto& [from, to] : instead)
      if (from == format) next = to;
    format = next;
  }
  return 0;
}

int Datasheet::level_of(int devices) const {
  for (std::size_t i = 0; i < levels.size(); ++i)
    if (levels[i].devices == 0 || levels[i].devices >= devices) return static_cast<int>(i);
  return static_cast<int>(levels.size()) - 1;
}

}  // namespace trireme::platform
