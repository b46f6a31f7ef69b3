#include "base/axis.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

namespace trireme {

const char* name_of(Axis axis) {
  static constexpr const char* names[num_axes] = {"tp", "cp", "dp", "pp", "ep", "etp", "edp"};
  return names[static_cast<int>(axis)];
}

Axis axis_from_name(const std::string& name) {
  for (int i = 0; i < num_axes; ++i)
    if (name == name_of(static_cast<Axis>(i))) return static_cast<Axis>(i);
  throw std::invalid_argument(fmt::format("no axis is called \"{}\"", name));
}

std::string name_of(Axes axes) {
  std::string out;
  for (int i = 0; i < num_axes; ++i)
    if (const auto axis = static_cast<Axis>(i); axes.has(axis)) out += (out.empty() ? "" : "-") + std::string(name_of(axis));
  return out;
}

std::vector<Axis> axes_in_order(const std::string& names) {
  std::vector<Axis> out;
  Axes seen;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find('-', begin), names.size());
    const Axis axis = axis_from_name(names.substr(begin, end - begin));
    if (seen.has(axis)) throw std::invalid_argument(fmt::format("\"{}\" names {} twice", names, name_of(axis)));
    seen = seen | axis;
    out.push_back(axis);
    begin = end + 1;
  }
  return out;
}

}  // namespace trireme
